import com.google.gson.JsonObject;
import com.stripe.StripeClient;
import com.stripe.exception.IdempotencyException;
import com.stripe.exception.InvalidRequestException;
import com.stripe.exception.SignatureVerificationException;
import com.stripe.model.Event;
import com.stripe.model.PaymentIntent;
import com.stripe.model.Refund;
import com.stripe.model.checkout.Session;
import com.stripe.net.RequestOptions;
import com.stripe.net.Webhook;
import com.stripe.param.PaymentIntentCreateParams;
import com.stripe.param.RefundCreateParams;
import com.stripe.param.RefundListParams;
import com.stripe.param.checkout.SessionCreateParams;
import java.net.http.HttpResponse;
import java.time.Instant;
import java.util.Map;

/** Stripe's own Java library. */
final class StripeJudge {
  private static final String LIBRARY = "java stripe-java";

  private StripeJudge() {}

  static void drive() throws Exception {
    StripeClient client = new StripeClient.StripeClientBuilder().setApiKey(World.key("stripe-main.secret-key"))
        .setApiBase(World.SIMULATOR).setMaxNetworkRetries(2).build();
    String secret = World.key("stripe-main.webhook-secret");
    String number = World.number("JS");
    String[] ids = new String[2];
    World.check(LIBRARY, "create", () -> {
      RequestOptions options = RequestOptions.builder().setIdempotencyKey("pay:" + number).build();
      PaymentIntent intent = client.paymentIntents().create(intent(number, 1234L), options);
      ids[0] = intent.getId();
      World.same("requires_payment_method", intent.getStatus());
      World.same(ids[0], client.paymentIntents().create(intent(number, 1234L), options).getId());
      try {
        client.paymentIntents().create(intent(number, 1235L), options);
        throw new AssertionError("another request under one key is taken");
      } catch (IdempotencyException refused) {
        World.same(400, refused.getStatusCode());
      }
    });
    World.check(LIBRARY, "query", () -> World.same(1234L, client.paymentIntents().retrieve(ids[0]).getAmount()));
    World.check(LIBRARY, "paid", () -> {
      World.control("orders/" + number + "/pay", "{}");
      PaymentIntent intent = client.paymentIntents().retrieve(ids[0]);
      World.same("succeeded", intent.getStatus());
      World.same(1234L, intent.getAmountReceived());
    });
    World.check(LIBRARY, "notice", () -> {
      World.Recorded notice = World.notice(one -> one.path().contains("stripe") && one.text().contains(number));
      Event event = Webhook.constructEvent(notice.text(), notice.header("Stripe-Signature"), secret);
      World.same("payment_intent.succeeded", event.getType());
      PaymentIntent intent = (PaymentIntent) event.getDataObjectDeserializer().deserializeUnsafe();
      World.same(number, intent.getMetadata().get("pay_no"));
      try {
        Webhook.constructEvent(notice.text() + " ", notice.header("Stripe-Signature"), secret);
        throw new AssertionError("a forged event is taken");
      } catch (SignatureVerificationException refused) {
        return;
      }
    });
    World.check(LIBRARY, "refund", () -> {
      RefundCreateParams params = RefundCreateParams.builder().setPaymentIntent(ids[0]).setAmount(234L)
          .putMetadata("refund_no", "R" + number).build();
      Refund refund = client.refunds().create(params);
      ids[1] = refund.getId();
      World.same("succeeded", refund.getStatus());
    });
    World.check(LIBRARY, "refund query", () -> {
      World.same(234L, client.refunds().retrieve(ids[1]).getAmount());
      RefundListParams params = RefundListParams.builder().setPaymentIntent(ids[0]).setLimit(5L).build();
      World.same("R" + number, client.refunds().list(params).getData().get(0).getMetadata().get("refund_no"));
    });
    World.check(LIBRARY, "close", () -> {
      try {
        client.paymentIntents().cancel(ids[0]);
        throw new AssertionError("a paid intent is cancelled");
      } catch (InvalidRequestException refused) {
        World.same("payment_intent_unexpected_state", refused.getCode());
      }
      Session session = client.checkout().sessions().create(session(World.number("JC")));
      World.that(session.getUrl().startsWith("http"), "an address");
      World.same("expired", client.checkout().sessions().expire(session.getId()).getStatus());
    });
  }

  private static PaymentIntentCreateParams intent(String number, long amount) {
    return PaymentIntentCreateParams.builder().setAmount(amount).setCurrency("usd").putMetadata("pay_no", number)
        .setAutomaticPaymentMethods(
            PaymentIntentCreateParams.AutomaticPaymentMethods.builder().setEnabled(true).build())
        .build();
  }

  private static SessionCreateParams session(String number) {
    var product = SessionCreateParams.LineItem.PriceData.ProductData.builder().setName("茶 tea").build();
    var price = SessionCreateParams.LineItem.PriceData.builder().setCurrency("jpy").setUnitAmount(500L)
        .setProductData(product).build();
    return SessionCreateParams.builder().setMode(SessionCreateParams.Mode.PAYMENT).setClientReferenceId(number)
        .setSuccessUrl("https://shop.example/ok")
        .addLineItem(SessionCreateParams.LineItem.builder().setQuantity(2L).setPriceData(price).build()).build();
  }

  /** Signs events about the facts with the library's own function and lets the receiver judge them. */
  static void sign(String file) throws Exception {
    String secret = World.key("stripe-main.webhook-secret");
    for (JsonObject fact : World.facts(file, "stripe")) {
      String number = fact.get("pay_no").getAsString();
      String body = StripeEvent.about(fact);
      String time = String.valueOf(Instant.now().getEpochSecond());
      String signature = "t=" + time + ",v1=" + Webhook.Util.computeHmacSha256(secret, time + "." + body);
      Map<String, String> headers = Map.of("Content-Type", "application/json", "Stripe-Signature", signature);
      World.check(LIBRARY, "forged to us " + number, () ->
          World.that(World.post("stripe", headers, body + " ").statusCode() >= 400, "a forged event is refused"));
      World.check(LIBRARY, "notice to us " + number, () -> {
        HttpResponse<String> answer = World.post("stripe", headers, body);
        World.same(2, answer.statusCode() / 100);
      });
    }
  }
}
