import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/** Where everything is, what was recorded, and how results are told. */
final class World {
  static final String SIMULATOR = System.getenv("SIMULATOR_URL");
  static final String RECEIVER = System.getenv("RECEIVER_URL");
  static final HttpClient HTTP = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  /** Waits of a hundredth of this many seconds for a notice; a loaded machine needs a few of them. */
  private static final int WAITS_MAX = 2_000;

  private World() {}

  /** One operation of a library; it throws when an answer is not as it must be. */
  interface Act {
    void run() throws Exception;
  }

  /** Something that arrived and was recorded. */
  record Recorded(String method, String path, Map<String, String> headers, byte[] body) {
    String header(String name) {
      return headers.getOrDefault(name.toLowerCase(), "");
    }

    String text() {
      return new String(body, StandardCharsets.UTF_8);
    }
  }

  static void check(String library, String operation, Act act) {
    try {
      act.run();
      tell(library, operation, "ok", "");
    } catch (Exception | AssertionError error) {
      tell(library, operation, "FAIL", String.valueOf(error).replaceAll("\\s+", " "));
    }
  }

  private static void tell(String library, String operation, String result, String detail) {
    System.out.printf("RESULT\t%s\t%s\t%s\t%s%n", library, operation, result, detail);
  }

  static void same(Object expected, Object actual) {
    if (!expected.equals(actual)) {
      throw new AssertionError("expected " + expected + ", got " + actual);
    }
  }

  static void that(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  static String key(String name) throws IOException {
    return Files.readString(Path.of(System.getenv("KEYS"), name));
  }

  /** A number that no other run has used. */
  static String number(String prefix) {
    return prefix + Long.toString(System.nanoTime(), 36) + Integer.toString((int) (Math.random() * 46_656), 36);
  }

  static String control(String path, String body) throws Exception {
    HttpRequest request = HttpRequest.newBuilder(URI.create(SIMULATOR + "/control/" + path))
        .POST(HttpRequest.BodyPublishers.ofString(body)).build();
    HttpResponse<String> response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
    same(200, response.statusCode());
    return response.body();
  }

  static List<Recorded> recorded(Path dir) throws IOException {
    List<Recorded> all = new ArrayList<>();
    try (var paths = Files.list(dir)) {
      for (Path path : paths.filter(path -> path.toString().endsWith(".json")).sorted().toList()) {
        JsonObject json = JsonParser.parseString(Files.readString(path)).getAsJsonObject();
        Map<String, String> headers = new HashMap<>();
        for (Map.Entry<String, JsonElement> header : json.getAsJsonObject("headers").entrySet()) {
          headers.put(header.getKey().toLowerCase(), header.getValue().getAsString());
        }
        byte[] body = Base64.getDecoder().decode(json.get("body").getAsString());
        all.add(new Recorded(json.get("method").getAsString(), json.get("path").getAsString(), headers, body));
      }
    }
    return all;
  }

  /** Waits for a notice of the simulator's. */
  static Recorded notice(Predicate<Recorded> isIt) throws Exception {
    for (int wait = 0; wait < WAITS_MAX; wait++) {
      for (Recorded one : recorded(Path.of(System.getenv("RECORDED")))) {
        if (isIt.test(one)) {
          return one;
        }
      }
      Thread.sleep(10);
    }
    throw new AssertionError("no such notice came");
  }

  /** The payments that notices are to be signed about. */
  static List<JsonObject> facts(String file, String channel) throws IOException {
    JsonArray all = JsonParser.parseString(Files.readString(Path.of(file))).getAsJsonArray();
    List<JsonObject> facts = new ArrayList<>();
    for (JsonElement fact : all) {
      if (fact.getAsJsonObject().get("channel").getAsString().equals(channel)) {
        facts.add(fact.getAsJsonObject());
      }
    }
    return facts;
  }

  /** Posts a notice of a library's making to the account's address at the receiver. */
  static HttpResponse<String> post(String channel, Map<String, String> headers, String body) throws Exception {
    URI uri = URI.create(RECEIVER + "/v1/callbacks/" + channel + "/main");
    HttpRequest.Builder request = HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.ofString(body));
    headers.forEach(request::header);
    return HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
  }
}
