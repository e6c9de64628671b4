/** Drives one of the channels' own libraries: {@code <library> drive|sign|verify [file or folder]}. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    String what = arguments.length > 2 ? arguments[2] : "";
    switch (arguments[0] + " " + arguments[1]) {
      case "alipay drive" -> AlipayJudge.drive();
      case "alipay sign" -> AlipayJudge.sign(what);
      case "alipay verify" -> AlipayJudge.verify(what);
      case "wechatpay drive" -> WechatPayJudge.drive();
      case "wechatpay sign" -> WechatPayJudge.sign(what);
      case "wechatpay verify" -> WechatPayJudge.verify(what);
      case "stripe drive" -> StripeJudge.drive();
      case "stripe sign" -> StripeJudge.sign(what);
      default -> throw new IllegalArgumentException("no such library or mode");
    }
    // Their HTTP clients keep threads that would keep the program.
    System.exit(0);
  }
}
