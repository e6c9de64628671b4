import com.google.gson.JsonObject;
import com.wechat.pay.java.core.Config;
import com.wechat.pay.java.core.RSAConfig;
import com.wechat.pay.java.core.RSAPublicKeyConfig;
import com.wechat.pay.java.core.cipher.AeadAesCipher;
import com.wechat.pay.java.core.cipher.RSASigner;
import com.wechat.pay.java.core.cipher.RSAVerifier;
import com.wechat.pay.java.core.exception.ServiceException;
import com.wechat.pay.java.core.http.DefaultHttpClientBuilder;
import com.wechat.pay.java.core.http.HttpClient;
import com.wechat.pay.java.core.notification.NotificationParser;
import com.wechat.pay.java.core.notification.RequestParam;
import com.wechat.pay.java.core.util.PemUtil;
import com.wechat.pay.java.service.billdownload.BillDownloadServiceExtension;
import com.wechat.pay.java.service.billdownload.model.BillType;
import com.wechat.pay.java.service.billdownload.model.GetTradeBillRequest;
import com.wechat.pay.java.service.payments.h5.H5Service;
import com.wechat.pay.java.service.payments.h5.model.H5Info;
import com.wechat.pay.java.service.payments.h5.model.SceneInfo;
import com.wechat.pay.java.service.payments.model.Transaction;
import com.wechat.pay.java.service.payments.nativepay.NativePayService;
import com.wechat.pay.java.service.payments.nativepay.model.Amount;
import com.wechat.pay.java.service.payments.nativepay.model.CloseOrderRequest;
import com.wechat.pay.java.service.payments.nativepay.model.PrepayRequest;
import com.wechat.pay.java.service.payments.nativepay.model.QueryOrderByOutTradeNoRequest;
import com.wechat.pay.java.service.refund.RefundService;
import com.wechat.pay.java.service.refund.model.AmountReq;
import com.wechat.pay.java.service.refund.model.CreateRequest;
import com.wechat.pay.java.service.refund.model.QueryByOutRefundNoRequest;
import com.wechat.pay.java.service.refund.model.Status;
import java.net.URI;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.PublicKey;
import java.security.cert.X509Certificate;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneId;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import okhttp3.HttpUrl;
import okhttp3.OkHttpClient;
import okhttp3.Request;

/** WeChat Pay's own Java library, with certificates and with public keys. */
final class WechatPayJudge {
  private static final String PUBLIC_KEY_ID = "PUB_KEY_ID_0119000000012026010100000000";

  private WechatPayJudge() {}

  /** An account of ours: the simulator signs notices to `main` under its certificate and those to `second` under its public key. */
  private record Merchant(String account, String mchid, String appid) {
    String key(String name) throws Exception {
      return World.key("wechatpay-" + account + "." + name);
    }

    String notifyUrl() {
      return World.RECEIVER + "/v1/callbacks/wechatpay/" + account;
    }
  }

  private static final Merchant MAIN = new Merchant("main", "1900000001", "wx0000000000000001");
  private static final Merchant SECOND = new Merchant("second", "1900000002", "wx0000000000000002");

  /** A client that calls the simulator in place of the address that is built into the library. */
  private static OkHttpClient redirected() {
    URI to = URI.create(World.SIMULATOR);
    return new OkHttpClient.Builder().addInterceptor(chain -> {
      Request request = chain.request();
      HttpUrl url = request.url().newBuilder().scheme("http").host(to.getHost()).port(to.getPort()).build();
      return chain.proceed(request.newBuilder().url(url).build());
    }).build();
  }

  static void drive() throws Exception {
    Config certificates = new RSAConfig.Builder().merchantId(MAIN.mchid())
        .privateKey(MAIN.key("merchant.private.pem")).merchantSerialNumber(MAIN.key("merchant.serial"))
        .wechatPayCertificates(MAIN.key("platform.certificate.pem")).build();
    RSAPublicKeyConfig publicKeys = new RSAPublicKeyConfig.Builder().merchantId(SECOND.mchid())
        .privateKey(SECOND.key("merchant.private.pem")).merchantSerialNumber(SECOND.key("merchant.serial"))
        .publicKey(SECOND.key("public-key.public.pem")).publicKeyId(PUBLIC_KEY_ID.replace(MAIN.mchid(), SECOND.mchid()))
        .apiV3Key(SECOND.key("api-v3-key")).build();
    drive("java wechatpay-java (certificate)", MAIN, certificates, certificateParser());
    drive("java wechatpay-java (public key)", SECOND, publicKeys, new NotificationParser(publicKeys));
  }

  private static void drive(String library, Merchant us, Config config, NotificationParser parser) {
    HttpClient http = new DefaultHttpClientBuilder().config(config).okHttpClient(redirected()).build();
    NativePayService pay = new NativePayService.Builder().config(config).httpClient(http).build();
    RefundService refunds = new RefundService.Builder().config(config).httpClient(http).build();
    String number = World.number("JW");
    World.check(library, "create", () -> {
      World.that(pay.prepay(order(us, number)).getCodeUrl().startsWith("http"), "a code");
      PrepayRequest other = order(us, number);
      other.getAmount().setTotal(1001);
      try {
        pay.prepay(other);
        throw new AssertionError("other terms under one number are taken");
      } catch (ServiceException refused) {
        World.same("OUT_TRADE_NO_USED", refused.getErrorCode());
      }
    });
    World.check(library, "query", () -> World.same("NOTPAY", query(us, pay, number).getTradeState().name()));
    World.check(library, "paid", () -> {
      World.control("orders/" + number + "/pay", "{}");
      Transaction transaction = query(us, pay, number);
      World.same("SUCCESS", transaction.getTradeState().name());
      World.same(1000, transaction.getAmount().getTotal());
    });
    World.check(library, "notice", () -> {
      World.Recorded found =
          World.notice(one -> one.path().endsWith("wechatpay/" + us.account()) && isAbout(parser, one, number));
      try {
        parser.parse(param(found, found.text() + " "), Transaction.class);
      } catch (RuntimeException refused) {
        return;
      }
      throw new AssertionError("a forged notice is parsed");
    });
    World.check(library, "refund", () -> {
      CreateRequest request = new CreateRequest();
      request.setOutTradeNo(number);
      request.setOutRefundNo("R" + number);
      request.setNotifyUrl(us.notifyUrl());
      AmountReq amount = new AmountReq();
      amount.setRefund(300L);
      amount.setTotal(1000L);
      amount.setCurrency("CNY");
      request.setAmount(amount);
      String id = refunds.create(request).getRefundId();
      World.same(id, refunds.create(request).getRefundId());
    });
    World.check(library, "refund query", () -> {
      QueryByOutRefundNoRequest request = new QueryByOutRefundNoRequest();
      request.setOutRefundNo("R" + number);
      World.same(Status.SUCCESS, refunds.queryByOutRefundNo(request).getStatus());
    });
    World.check(library, "bill", () -> {
      GetTradeBillRequest request = new GetTradeBillRequest();
      request.setBillDate(LocalDate.now(ZoneId.of("Asia/Shanghai")).toString());
      request.setBillType(BillType.ALL);
      var entity = new BillDownloadServiceExtension.Builder().config(config).httpClient(http).build().getTradeBill(request);
      String text = new String(entity.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      World.that(text.contains(number), "the order is in the statement");
      World.that(entity.verifyHash(), "the hash is that of the file");
    });
    World.check(library, "close", () -> {
      String browser = World.number("JH");
      H5Service h5 = new H5Service.Builder().config(config).httpClient(http).build();
      World.that(h5.prepay(h5Order(us, browser)).getH5Url().startsWith("http"), "an address");
      CloseOrderRequest close = new CloseOrderRequest();
      close.setMchid(us.mchid());
      close.setOutTradeNo(browser);
      pay.closeOrder(close);
      World.same("CLOSED", query(us, pay, browser).getTradeState().name());
    });
  }

  /** A parser for notices under the platform's certificate, without a call to fetch it. */
  private static NotificationParser certificateParser() throws Exception {
    X509Certificate certificate = PemUtil.loadX509FromString(MAIN.key("platform.certificate.pem"));
    String serial = PemUtil.getSerialNumber(certificate);
    Map<String, com.wechat.pay.java.core.cipher.Verifier> verifiers = new HashMap<>();
    verifiers.put("WECHATPAY2-SHA256-RSA2048", new RSAVerifier(certificate.getPublicKey(), serial));
    Map<String, com.wechat.pay.java.core.cipher.AeadCipher> ciphers = new HashMap<>();
    ciphers.put("AEAD_AES_256_GCM", new AeadAesCipher(MAIN.key("api-v3-key").getBytes(StandardCharsets.UTF_8)));
    return new NotificationParser(verifiers, ciphers);
  }

  private static boolean isAbout(NotificationParser parser, World.Recorded one, String number) {
    try {
      Transaction transaction = parser.parse(param(one, one.text()), Transaction.class);
      return number.equals(transaction.getOutTradeNo());
    } catch (RuntimeException other) {
      return false;
    }
  }

  private static RequestParam param(World.Recorded one, String body) {
    return new RequestParam.Builder().serialNumber(one.header("Wechatpay-Serial"))
        .nonce(one.header("Wechatpay-Nonce")).signature(one.header("Wechatpay-Signature"))
        .timestamp(one.header("Wechatpay-Timestamp")).signType(one.header("Wechatpay-Signature-Type")).body(body)
        .build();
  }

  private record Signed(Map<String, String> headers, String body) {}

  private static Signed signed(JsonObject fact, String serial, String keyFile) throws Exception {
    JsonObject amount = new JsonObject();
    amount.addProperty("total", fact.get("amount").getAsLong());
    amount.addProperty("payer_total", fact.get("amount").getAsLong());
    amount.addProperty("currency", "CNY");
    JsonObject plain = new JsonObject();
    plain.addProperty("appid", MAIN.appid());
    plain.addProperty("mchid", MAIN.mchid());
    plain.addProperty("out_trade_no", fact.get("pay_no").getAsString());
    plain.addProperty("transaction_id", fact.get("txn").getAsString());
    plain.addProperty("trade_type", "NATIVE");
    plain.addProperty("trade_state", "SUCCESS");
    plain.addProperty("success_time", Instant.now().atZone(ZoneId.of("Asia/Shanghai")).toOffsetDateTime().withNano(0).toString());
    plain.add("amount", amount);
    String nonce = World.number("nonce").concat("000000000000").substring(0, 12);
    JsonObject resource = new JsonObject();
    resource.addProperty("original_type", "transaction");
    resource.addProperty("algorithm", "AEAD_AES_256_GCM");
    resource.addProperty("associated_data", "transaction");
    resource.addProperty("nonce", nonce);
    byte[] key = World.key("wechatpay-main.api-v3-key").getBytes(StandardCharsets.UTF_8);
    resource.addProperty("ciphertext", new AeadAesCipher(key).encrypt("transaction".getBytes(StandardCharsets.UTF_8),
        nonce.getBytes(StandardCharsets.UTF_8), plain.toString().getBytes(StandardCharsets.UTF_8)));
    JsonObject body = new JsonObject();
    body.addProperty("id", World.number("EV"));
    body.addProperty("create_time", plain.get("success_time").getAsString());
    body.addProperty("resource_type", "encrypt-resource");
    body.addProperty("event_type", "TRANSACTION.SUCCESS");
    body.addProperty("summary", "支付成功");
    body.add("resource", resource);
    String time = String.valueOf(Instant.now().getEpochSecond());
    String text = time + "\n" + nonce + "\n" + body + "\n";
    String sign = new RSASigner(serial, PemUtil.loadPrivateKeyFromString(World.key(keyFile))).sign(text).getSign();
    Map<String, String> headers = Map.of("Content-Type", "application/json", "Wechatpay-Timestamp", time,
        "Wechatpay-Nonce", nonce, "Wechatpay-Serial", serial, "Wechatpay-Signature", sign,
        "Wechatpay-Signature-Type", "WECHATPAY2-SHA256-RSA2048");
    return new Signed(headers, body.toString());
  }

  /** Signs notices about the facts, with the certificate's key and with the public key's, and lets the receiver judge. */
  static void sign(String file) throws Exception {
    Map<String, String> keys = Map.of(
        World.key("wechatpay-main.platform.serial"), "wechatpay-main.platform.private.pem",
        PUBLIC_KEY_ID, "wechatpay-main.public-key.private.pem");
    for (JsonObject fact : World.facts(file, "wechatpay")) {
      for (Map.Entry<String, String> key : keys.entrySet()) {
        String library = "java wechatpay-java (" + (key.getKey().startsWith("PUB") ? "public key)" : "certificate)");
        String number = fact.get("pay_no").getAsString();
        Signed signed = signed(fact, key.getKey(), key.getValue());
        World.check(library, "forged to us " + number, () -> {
          HttpResponse<String> answer = World.post("wechatpay", signed.headers(), signed.body() + " ");
          World.that(answer.statusCode() >= 400, "a forged notice is refused");
        });
        World.check(library, "notice to us " + number, () -> {
          HttpResponse<String> answer = World.post("wechatpay", signed.headers(), signed.body());
          World.that(answer.statusCode() == 200 || answer.statusCode() == 204, "taken: " + answer.statusCode());
        });
      }
    }
  }

  /** Verifies recorded calls with the key of the merchant that they name. */
  static void verify(String folder) throws Exception {
    String library = "java wechatpay-java";
    Pattern part = Pattern.compile("(\\w+)=\"([^\"]*)\"");
    int count = 0;
    for (World.Recorded one : World.recorded(Path.of(folder))) {
      if (!one.path().startsWith("/v3/")) {
        continue;
      }
      String label = "request " + ++count + " " + one.method() + " " + one.path().replaceAll("\\?.*", "");
      World.check(library, label, () -> {
        Map<String, String> parts = new HashMap<>();
        Matcher matcher = part.matcher(one.header("Authorization"));
        while (matcher.find()) {
          parts.put(matcher.group(1), matcher.group(2));
        }
        Merchant us = SECOND.mchid().equals(parts.get("mchid")) ? SECOND : MAIN;
        World.same(us.mchid(), parts.get("mchid"));
        String serial = us.key("merchant.serial");
        PublicKey key = PemUtil.loadPublicKeyFromString(us.key("merchant.public.pem"));
        World.that(serial.equalsIgnoreCase(parts.get("serial_no")), "the serial is the merchant's");
        String text = one.method() + "\n" + one.path() + "\n" + parts.get("timestamp") + "\n" + parts.get("nonce_str")
            + "\n" + one.text() + "\n";
        World.that(new RSAVerifier(key, serial).verify(serial, text, parts.get("signature")), "the request verifies");
      });
    }
    World.that(count > 0, "no call of WeChat Pay was recorded");
  }

  private static PrepayRequest order(Merchant us, String number) {
    Amount amount = new Amount();
    amount.setTotal(1000);
    PrepayRequest request = new PrepayRequest();
    request.setAppid(us.appid());
    request.setMchid(us.mchid());
    request.setDescription("茶 tea");
    request.setOutTradeNo(number);
    request.setNotifyUrl(us.notifyUrl());
    request.setAmount(amount);
    return request;
  }

  private static com.wechat.pay.java.service.payments.h5.model.PrepayRequest h5Order(Merchant us, String number) {
    var amount = new com.wechat.pay.java.service.payments.h5.model.Amount();
    amount.setTotal(100);
    var request = new com.wechat.pay.java.service.payments.h5.model.PrepayRequest();
    request.setAppid(us.appid());
    request.setMchid(us.mchid());
    request.setDescription("茶 tea");
    request.setOutTradeNo(number);
    request.setNotifyUrl(us.notifyUrl());
    request.setAmount(amount);
    H5Info info = new H5Info();
    info.setType("Wap");
    SceneInfo scene = new SceneInfo();
    scene.setPayerClientIp("127.0.0.1");
    scene.setH5Info(info);
    request.setSceneInfo(scene);
    return request;
  }

  private static Transaction query(Merchant us, NativePayService pay, String number) {
    QueryOrderByOutTradeNoRequest request = new QueryOrderByOutTradeNoRequest();
    request.setMchid(us.mchid());
    request.setOutTradeNo(number);
    return pay.queryOrderByOutTradeNo(request);
  }
}
