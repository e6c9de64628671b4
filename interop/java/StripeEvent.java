import com.google.gson.JsonObject;
import java.time.Instant;

/** An event about a paid payment: of a session where the fact names one, else of an intent. */
final class StripeEvent {
  private StripeEvent() {}

  static String about(JsonObject fact) {
    String number = fact.get("pay_no").getAsString();
    long now = Instant.now().getEpochSecond();
    JsonObject metadata = new JsonObject();
    metadata.addProperty("pay_no", number);
    JsonObject object = new JsonObject();
    object.add("metadata", metadata);
    object.addProperty("created", now);
    object.addProperty("livemode", true);
    object.addProperty("currency", fact.get("currency").getAsString().toLowerCase());
    boolean isSession = fact.has("session");
    if (isSession) {
      object.addProperty("id", fact.get("session").getAsString());
      object.addProperty("object", "checkout.session");
      object.addProperty("client_reference_id", number);
      object.addProperty("amount_total", fact.get("amount").getAsLong());
      object.addProperty("payment_intent", fact.get("txn").getAsString());
      object.addProperty("payment_status", "paid");
      object.addProperty("mode", "payment");
      object.addProperty("status", "complete");
    } else {
      object.addProperty("id", fact.get("txn").getAsString());
      object.addProperty("object", "payment_intent");
      object.addProperty("amount", fact.get("amount").getAsLong());
      object.addProperty("amount_received", fact.get("amount").getAsLong());
      object.addProperty("status", "succeeded");
    }
    JsonObject data = new JsonObject();
    data.add("object", object);
    JsonObject event = new JsonObject();
    event.addProperty("id", World.number("evt_"));
    event.addProperty("object", "event");
    event.addProperty("api_version", "2025-10-29.clover");
    event.addProperty("created", now);
    event.addProperty("livemode", true);
    event.addProperty("type", isSession ? "checkout.session.completed" : "payment_intent.succeeded");
    event.add("data", data);
    return event.toString();
  }
}
