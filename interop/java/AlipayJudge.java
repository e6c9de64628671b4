import com.alipay.api.AlipayClient;
import com.alipay.api.AlipayResponse;
import com.alipay.api.DefaultAlipayClient;
import com.alipay.api.internal.util.AlipaySignature;
import com.alipay.api.request.AlipayDataDataserviceBillDownloadurlQueryRequest;
import com.alipay.api.request.AlipayTradeCloseRequest;
import com.alipay.api.request.AlipayTradeFastpayRefundQueryRequest;
import com.alipay.api.request.AlipayTradePagePayRequest;
import com.alipay.api.request.AlipayTradePrecreateRequest;
import com.alipay.api.request.AlipayTradeQueryRequest;
import com.alipay.api.request.AlipayTradeRefundRequest;
import com.google.gson.JsonObject;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.Map;
import java.util.TreeMap;

/** Alipay's own Java library. */
final class AlipayJudge {
  private static final String LIBRARY = "java alipay-sdk-java";
  private static final String APP_ID = "2021000000000001";
  private static final ZoneId CHINA = ZoneId.of("Asia/Shanghai");

  private AlipayJudge() {}

  /** The inside of a PEM text: what the library wants. */
  private static String bare(String name) throws Exception {
    return World.key(name).replaceAll("-----[^-]+-----", "").replaceAll("\\s", "");
  }

  static void drive() throws Exception {
    AlipayClient client = new DefaultAlipayClient(
        World.SIMULATOR + "/gateway.do", APP_ID, bare("alipay-main.app.private.pem"), "json", "utf-8",
        bare("alipay-main.channel.public.pem"), "RSA2");
    String number = World.number("JA");
    String notifyUrl = World.RECEIVER + "/v1/callbacks/alipay/main";
    World.check(LIBRARY, "create", () -> {
      AlipayTradePrecreateRequest request = new AlipayTradePrecreateRequest();
      request.setNotifyUrl(notifyUrl);
      request.setBizContent(order(number, "12.30"));
      World.that(done(client.execute(request)).getQrCode().startsWith("http"), "a code");
    });
    World.check(LIBRARY, "query", () -> {
      World.same("ACQ.TRADE_NOT_EXIST", query(client, number).getSubCode());
      World.control("orders/" + number + "/meet", "{}");
      World.same("WAIT_BUYER_PAY", done(query(client, number)).getTradeStatus());
    });
    World.check(LIBRARY, "paid", () -> {
      World.control("orders/" + number + "/pay", "{}");
      World.same("TRADE_SUCCESS", done(query(client, number)).getTradeStatus());
      World.same("12.30", query(client, number).getTotalAmount());
    });
    World.check(LIBRARY, "notice", () -> {
      World.Recorded notice = World.notice(one -> one.text().contains("out_trade_no=" + number));
      World.that(verifies(fields(notice.text())), "the notice verifies");
      Map<String, String> forged = fields(notice.text());
      forged.put("total_amount", "0.01");
      World.that(!verifies(forged), "a forged notice does not verify");
    });
    World.check(LIBRARY, "refund", () -> {
      AlipayTradeRefundRequest request = new AlipayTradeRefundRequest();
      request.setBizContent("{\"out_trade_no\":\"" + number + "\",\"out_request_no\":\"R1\",\"refund_amount\":\"2.30\"}");
      World.same("Y", done(client.execute(request)).getFundChange());
      World.same("N", done(client.execute(request)).getFundChange());
    });
    World.check(LIBRARY, "refund query", () -> {
      AlipayTradeFastpayRefundQueryRequest request = new AlipayTradeFastpayRefundQueryRequest();
      request.setBizContent("{\"out_trade_no\":\"" + number + "\",\"out_request_no\":\"R1\"}");
      World.same("REFUND_SUCCESS", done(client.execute(request)).getRefundStatus());
    });
    World.check(LIBRARY, "bill", () -> {
      AlipayDataDataserviceBillDownloadurlQueryRequest request = new AlipayDataDataserviceBillDownloadurlQueryRequest();
      request.setBizContent("{\"bill_type\":\"trade\",\"bill_date\":\"" + LocalDate.now(CHINA) + "\"}");
      World.that(done(client.execute(request)).getBillDownloadUrl().startsWith(World.SIMULATOR), "a link");
    });
    World.check(LIBRARY, "close", () -> {
      String page = World.number("JP");
      AlipayTradePagePayRequest pay = new AlipayTradePagePayRequest();
      pay.setNotifyUrl(notifyUrl);
      pay.setBizContent(order(page, "1.00"));
      HttpRequest browser = HttpRequest.newBuilder(URI.create(client.pageExecute(pay, "GET").getBody())).build();
      HttpResponse<String> shown = World.HTTP.send(browser, HttpResponse.BodyHandlers.ofString());
      World.that(shown.statusCode() == 200 && shown.body().contains("支付"), "the page opens");
      AlipayTradeCloseRequest request = new AlipayTradeCloseRequest();
      request.setBizContent("{\"out_trade_no\":\"" + page + "\"}");
      done(client.execute(request));
      World.same("TRADE_CLOSED", done(query(client, page)).getTradeStatus());
    });
  }

  private static String order(String number, String yuan) {
    return "{\"out_trade_no\":\"" + number + "\",\"total_amount\":\"" + yuan
        + "\",\"subject\":\"茶 tea\",\"product_code\":\"FAST_INSTANT_TRADE_PAY\"}";
  }

  private static com.alipay.api.response.AlipayTradeQueryResponse query(AlipayClient client, String number)
      throws Exception {
    AlipayTradeQueryRequest request = new AlipayTradeQueryRequest();
    request.setBizContent("{\"out_trade_no\":\"" + number + "\"}");
    return client.execute(request);
  }

  private static <T extends AlipayResponse> T done(T response) {
    World.that(response.isSuccess(), response.getCode() + " " + response.getSubCode());
    return response;
  }

  private static boolean verifies(Map<String, String> fields) throws Exception {
    return AlipaySignature.rsaCheckV1(fields, bare("alipay-main.channel.public.pem"), "utf-8", "RSA2");
  }

  private static Map<String, String> fields(String form) {
    Map<String, String> fields = new TreeMap<>();
    for (String pair : form.split("&")) {
      int at = pair.indexOf('=');
      if (at > 0) {
        fields.put(decoded(pair.substring(0, at)), decoded(pair.substring(at + 1)));
      }
    }
    return fields;
  }

  private static String decoded(String text) {
    return URLDecoder.decode(text, StandardCharsets.UTF_8);
  }

  /** Signs notices about the facts and lets the receiver judge them. */
  static void sign(String file) throws Exception {
    for (JsonObject fact : World.facts(file, "alipay")) {
      String number = fact.get("pay_no").getAsString();
      Map<String, String> fields = new TreeMap<>();
      DateTimeFormatter format = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss");
      String now = LocalDateTime.now(CHINA).format(format);
      fields.put("notify_type", "trade_status_sync");
      fields.put("notify_id", World.number("n"));
      fields.put("notify_time", now);
      fields.put("gmt_create", now);
      fields.put("gmt_payment", now);
      fields.put("app_id", APP_ID);
      fields.put("seller_id", "2088000000000001");
      fields.put("charset", "utf-8");
      fields.put("version", "1.0");
      fields.put("trade_status", "TRADE_SUCCESS");
      fields.put("trade_no", fact.get("txn").getAsString());
      fields.put("out_trade_no", number);
      long fen = fact.get("amount").getAsLong();
      fields.put("total_amount", "%d.%02d".formatted(fen / 100, fen % 100));
      fields.put("subject", "茶 + tea");
      String text = AlipaySignature.getSignContent(fields);
      String sign = AlipaySignature.rsaSign(text, bare("alipay-main.channel.private.pem"), "utf-8", "RSA2");
      fields.put("sign_type", "RSA2");
      fields.put("sign", sign);
      World.check(LIBRARY, "forged to us " + number, () -> {
        Map<String, String> forged = new TreeMap<>(fields);
        forged.put("total_amount", "0.01");
        World.that(!"success".equals(post(forged).body()), "a forged notice is refused");
      });
      World.check(LIBRARY, "notice to us " + number, () -> {
        HttpResponse<String> answer = post(fields);
        World.same(200, answer.statusCode());
        World.same("success", answer.body());
      });
    }
  }

  private static HttpResponse<String> post(Map<String, String> fields) throws Exception {
    StringBuilder body = new StringBuilder();
    for (Map.Entry<String, String> field : fields.entrySet()) {
      body.append(body.isEmpty() ? "" : "&").append(field.getKey()).append('=')
          .append(URLEncoder.encode(field.getValue(), StandardCharsets.UTF_8));
    }
    Map<String, String> headers = Map.of("Content-Type", "application/x-www-form-urlencoded; charset=utf-8");
    return World.post("alipay", headers, body.toString());
  }

  /** Verifies recorded requests to the gateway; of a request, the signature's kind is signed too. */
  static void verify(String folder) throws Exception {
    int count = 0;
    for (World.Recorded one : World.recorded(Path.of(folder))) {
      if (!one.path().startsWith("/gateway.do")) {
        continue;
      }
      String query = one.path().contains("?") ? one.path().substring(one.path().indexOf('?') + 1) : "";
      Map<String, String> fields = fields(query + "&" + one.text());
      String label = "request " + ++count + " " + fields.get("method");
      String account = APP_ID.equals(fields.get("app_id")) ? "main" : "second";
      String key = bare("alipay-" + account + ".app.public.pem");
      World.check(LIBRARY, label, () ->
          World.that(AlipaySignature.rsaCheckV2(fields, key, "utf-8", "RSA2"), "the request verifies"));
    }
    World.that(count > 0, "no request to the gateway was recorded");
  }
}
