"""Drives one widely used Python library: judge.py <alipay|wechatpay|stripe> drive|sign|verify [<file or folder>]."""

import base64
import datetime
import gzip
import json
import secrets
import sys
import time
import urllib.parse

from world import RECEIVER, SIMULATOR, check, control, facts, form, key, notice, number, post, recorded, same

CHINA = datetime.timezone(datetime.timedelta(hours=8))
MODE, WHAT = sys.argv[2], (sys.argv[3] if len(sys.argv) > 3 else "")


def alipay():
    from alipay import AliPay

    library = "python python-alipay-sdk"
    app = AliPay(
        appid="2021000000000001",
        app_notify_url=f"{RECEIVER}/v1/callbacks/alipay/main",
        app_private_key_string=key("alipay-main.app.private.pem"),
        alipay_public_key_string=key("alipay-main.channel.public.pem"),
        sign_type="RSA2",
    )
    app._gateway = SIMULATOR + "/gateway.do"
    ours = number("PA")

    def create():
        told = app.api_alipay_trade_precreate(subject="茶 tea", out_trade_no=ours, total_amount="12.30")
        same("10000", told["code"])

    def query():
        same("ACQ.TRADE_NOT_EXIST", app.api_alipay_trade_query(out_trade_no=ours)["sub_code"])
        control(f"orders/{ours}/meet")
        same("WAIT_BUYER_PAY", app.api_alipay_trade_query(out_trade_no=ours)["trade_status"])

    def paid():
        control(f"orders/{ours}/pay")
        same("TRADE_SUCCESS", app.api_alipay_trade_query(out_trade_no=ours)["trade_status"])

    def told():
        fields = form(notice(lambda one: b"out_trade_no=" + ours.encode() in one["body"])["body"].decode())
        sign = fields.pop("sign")
        same(True, app.verify(dict(fields), sign))
        same(False, app.verify(dict(fields, total_amount="0.01"), sign))

    def refund():
        for changed in "YN":
            answer = app.api_alipay_trade_refund(
                refund_amount="2.30", out_trade_no=ours, out_request_no="R1"
            )
            same(("10000", changed), (answer["code"], answer["fund_change"]))

    def refund_query():
        answer = app.api_alipay_trade_fastpay_refund_query("R1", out_trade_no=ours)
        same(("REFUND_SUCCESS", "2.30"), (answer["refund_status"], answer["refund_amount"]))

    def close():
        other = number("PA")
        app.api_alipay_trade_precreate(subject="tea", out_trade_no=other, total_amount="0.01")
        control(f"orders/{other}/meet")
        same("10000", app.api_alipay_trade_close(out_trade_no=other)["code"])
        same("TRADE_CLOSED", app.api_alipay_trade_query(out_trade_no=other)["trade_status"])

    def sign():
        channel = AliPay(
            appid="2021000000000001",
            app_notify_url=None,
            app_private_key_string=key("alipay-main.channel.private.pem"),
            alipay_public_key_string=key("alipay-main.channel.public.pem"),
            sign_type="RSA2",
        )
        for fact in facts(WHAT, "alipay"):
            now = datetime.datetime.now(CHINA).strftime("%Y-%m-%d %H:%M:%S")
            fields = {
                "notify_type": "trade_status_sync", "notify_id": number("n"), "notify_time": now,
                "gmt_create": now, "gmt_payment": now, "app_id": "2021000000000001",
                "seller_id": "2088000000000001", "charset": "utf-8", "version": "1.0",
                "trade_status": "TRADE_SUCCESS", "trade_no": fact["txn"], "out_trade_no": fact["pay_no"],
                "total_amount": f"{fact['amount'] // 100}.{fact['amount'] % 100:02}", "subject": "茶 + tea",
            }
            text = "&".join(f"{name}={value}" for name, value in sorted(fields.items()))
            fields |= {"sign": channel._sign(text), "sign_type": "RSA2"}
            headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}

            def send(fields):
                return post("alipay", headers, urllib.parse.urlencode(fields).encode())

            def forged():
                same(False, send(dict(fields, total_amount="0.01"))[1] == b"success")

            check(library, f"forged to us {fact['pay_no']}", forged)
            check(library, f"notice to us {fact['pay_no']}", lambda: same((200, b"success"), send(fields)))

    def verify():
        # The library verifies with "the channel's" key: here that is the app's, whose requests are looked at.
        judges = {
            app_id: AliPay(
                appid=app_id,
                app_notify_url=None,
                app_private_key_string=key(f"alipay-{name}.app.private.pem"),
                alipay_public_key_string=key(f"alipay-{name}.app.public.pem"),
                sign_type="RSA2",
            )
            for app_id, name in {"2021000000000001": "main", "2021000000000002": "second"}.items()
        }
        requests = [one for one in recorded(WHAT) if one["path"].startswith("/gateway.do")]
        for place, one in enumerate(requests, 1):
            fields = form(urllib.parse.urlsplit(one["path"]).query) | form(one["body"].decode())
            sign_text = fields.pop("sign")
            text = "&".join(f"{name}={value}" for name, value in sorted(fields.items()) if value)
            judge = judges[fields["app_id"]]
            check(library, f"request {place} {fields['method']}", lambda: same(True, judge._verify(text, sign_text)))

    drive(library, sign, verify, create=create, query=query, paid=paid, notice=told, refund=refund,
          refund_query=refund_query, close=close)


def wechatpay():
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from wechatpayv3 import WeChatPay, WeChatPayType
    from wechatpayv3.utils import load_private_key, rsa_sign

    def account(name, place):
        """What the library is made with; the simulator signs notices to `main` under its certificate, to `second` under a
        public key."""
        return {
            "wechatpay_type": WeChatPayType.NATIVE, "mchid": f"190000000{place}", "appid": f"wx000000000000000{place}",
            "private_key": key(f"wechatpay-{name}.merchant.private.pem"),
            "cert_serial_no": key(f"wechatpay-{name}.merchant.serial"),
            "apiv3_key": key(f"wechatpay-{name}.api-v3-key"),
            "notify_url": f"{RECEIVER}/v1/callbacks/wechatpay/{name}",
        }

    def public_key_id(place):
        return f"PUB_KEY_ID_01190000000{place}2026010100000000"

    of_public_key = WeChatPay(
        public_key=key("wechatpay-second.public-key.public.pem"), public_key_id=public_key_id(2), **account("second", 2)
    )
    # With a key it does not call out while it is made; the key is taken away before it is used.
    of_certificate = WeChatPay(
        public_key=key("wechatpay-main.public-key.public.pem"), public_key_id="x", **account("main", 1)
    )
    of_certificate._core._public_key_id = of_certificate._core._public_key = None

    def judged(library, pay, name):
        pay._core._gate_way = SIMULATOR
        ours = number("PW")[:32]

        def answered(told, status=200):
            same(status, told[0])
            return json.loads(told[1]) if told[1] else {}

        def create():
            answered(pay.pay(description="茶 tea", out_trade_no=ours, amount={"total": 1000}))

        def query():
            same("NOTPAY", answered(pay.query(out_trade_no=ours))["trade_state"])

        def paid():
            control(f"orders/{ours}/pay")
            same("SUCCESS", answered(pay.query(out_trade_no=ours))["trade_state"])

        def told():
            def opened(one):
                if "wechatpay-signature" not in one["headers"]:
                    return None
                return pay.callback(one["headers"], one["body"])

            def is_ours(one):
                if not one["path"].endswith("wechatpay/" + name):
                    return False
                read = opened(one)
                return bool(read) and read["resource"]["out_trade_no"] == ours

            one = notice(is_ours)
            same(None, opened(dict(one, body=one["body"] + b" ")))

        def refund():
            for _ in range(2):
                amount = {"refund": 300, "total": 1000, "currency": "CNY"}
                answered(pay.refund(out_refund_no="R" + ours, amount=amount, out_trade_no=ours))

        def refund_query():
            same("SUCCESS", answered(pay.query_refund("R" + ours))["status"])

        def bill():
            today = datetime.datetime.now(CHINA).strftime("%Y-%m-%d")
            link = answered(pay.trade_bill(bill_date=today))
            status, file = pay.download_bill(link["download_url"])
            # The library asks for gzip and gives it on as it came.
            same((200, True), (status, ours in gzip.decompress(file).decode("utf-8")))

        def close():
            other = number("PW")[:32]
            answered(pay.pay(description="tea", out_trade_no=other, amount={"total": 1}))
            answered(pay.close(other), 204)
            same("CLOSED", answered(pay.query(out_trade_no=other))["trade_state"])

        acts = {"create": create, "query": query, "paid": paid, "refund": refund, "refund_query": refund_query,
                "bill": bill, "close": close, "notice": told}
        for operation, act in acts.items():
            check(library, operation.replace("_", " "), act)

    def sign():
        names = {
            key("wechatpay-main.platform.serial"): "wechatpay-main.platform.private.pem",
            public_key_id(1): "wechatpay-main.public-key.private.pem",
        }
        for fact in facts(WHAT, "wechatpay"):
            for serial, name in names.items():
                now = datetime.datetime.now(CHINA).replace(microsecond=0).isoformat()
                plain = {
                    "appid": "wx0000000000000001", "mchid": "1900000001", "out_trade_no": fact["pay_no"],
                    "transaction_id": fact["txn"], "trade_type": "NATIVE", "trade_state": "SUCCESS",
                    "success_time": now,
                    "amount": {"total": fact["amount"], "payer_total": fact["amount"], "currency": "CNY"},
                }
                nonce = secrets.token_hex(6)
                sealed = AESGCM(key("wechatpay-main.api-v3-key").encode()).encrypt(
                    nonce.encode(), json.dumps(plain, ensure_ascii=False).encode(), b"transaction"
                )
                body = json.dumps({
                    "id": number("EV"), "create_time": now, "resource_type": "encrypt-resource",
                    "event_type": "TRANSACTION.SUCCESS", "summary": "支付成功",
                    "resource": {
                        "original_type": "transaction", "algorithm": "AEAD_AES_256_GCM", "nonce": nonce,
                        "associated_data": "transaction", "ciphertext": base64.b64encode(sealed).decode(),
                    },
                })
                stamp = str(int(time.time()))
                headers = {
                    "Content-Type": "application/json", "Wechatpay-Timestamp": stamp, "Wechatpay-Nonce": nonce,
                    "Wechatpay-Serial": serial, "Wechatpay-Signature-Type": "WECHATPAY2-SHA256-RSA2048",
                    "Wechatpay-Signature": rsa_sign(load_private_key(key(name)), f"{stamp}\n{nonce}\n{body}\n"),
                }
                library = "python wechatpayv3 " + ("(public key)" if serial == public_key_id(1) else "(certificate)")

                def forged():
                    same(True, post("wechatpay", headers, body.encode() + b" ")[0] >= 400)

                check(library, f"forged to us {fact['pay_no']}", forged)
                check(library, f"notice to us {fact['pay_no']}",
                      lambda: same(True, post("wechatpay", headers, body.encode())[0] in (200, 204)))

    if MODE == "sign":
        sign()
    else:
        judged("python wechatpayv3 (certificate)", of_certificate, "main")
        judged("python wechatpayv3 (public key)", of_public_key, "second")


def stripe():
    import stripe as sdk

    library = "python stripe"
    client = sdk.StripeClient(key("stripe-main.secret-key"), base_addresses={"api": SIMULATOR}, max_network_retries=2)
    secret = key("stripe-main.webhook-secret")
    ours, ids = number("PS"), {}

    def create():
        params = {"amount": 1234, "currency": "usd", "metadata": {"pay_no": ours}}
        options = {"idempotency_key": f"pay:{ours}"}
        ids["intent"] = client.v1.payment_intents.create(params, options).id
        same(ids["intent"], client.v1.payment_intents.create(params, options).id)
        try:
            client.v1.payment_intents.create(params | {"amount": 1235}, options)
            raise AssertionError("another request under one key is taken")
        except sdk.IdempotencyError:
            pass

    def query():
        same(1234, client.v1.payment_intents.retrieve(ids["intent"]).amount)

    def paid():
        control(f"orders/{ours}/pay")
        same("succeeded", client.v1.payment_intents.retrieve(ids["intent"]).status)

    def told():
        one = notice(lambda one: b"payment_intent" in one["body"] and ours.encode() in one["body"])
        header = one["headers"]["stripe-signature"]
        event = sdk.Webhook.construct_event(one["body"], header, secret)
        same(("payment_intent.succeeded", ours), (event.type, event.data.object.metadata["pay_no"]))
        try:
            sdk.Webhook.construct_event(one["body"] + b" ", header, secret)
            raise AssertionError("a forged event is taken")
        except sdk.SignatureVerificationError:
            pass

    def refund():
        params = {"payment_intent": ids["intent"], "amount": 234, "metadata": {"refund_no": "R" + ours}}
        ids["refund"] = client.v1.refunds.create(params).id

    def refund_query():
        same("succeeded", client.v1.refunds.retrieve(ids["refund"]).status)
        same(1, len(client.v1.refunds.list({"payment_intent": ids["intent"]}).data))

    def retry():
        """A 503 although the work was done: the library asks again under its key, and gets what was made."""
        control("plan", {"create": {"error_after_commit_percent": 100}})
        try:
            other = number("PS")
            made = client.v1.payment_intents.create({"amount": 1, "currency": "usd", "metadata": {"pay_no": other}})
            found = client.v1.payment_intents.search({"query": f"metadata['pay_no']:'{other}'"}).data
            same([made.id], [one.id for one in found])
        finally:
            control("plan")

    def close():
        other = client.v1.payment_intents.create({"amount": 1, "currency": "usd"}).id
        same("canceled", client.v1.payment_intents.cancel(other).status)

    def sign():
        for fact in facts(WHAT, "stripe"):
            now = int(time.time())
            about = {"created": now, "livemode": True, "currency": fact["currency"].lower(),
                     "metadata": {"pay_no": fact["pay_no"]}}
            if "session" in fact:
                about |= {
                    "id": fact["session"], "object": "checkout.session", "client_reference_id": fact["pay_no"],
                    "amount_total": fact["amount"], "payment_intent": fact["txn"], "payment_status": "paid",
                    "mode": "payment", "status": "complete",
                }
            else:
                about |= {"id": fact["txn"], "object": "payment_intent", "amount": fact["amount"],
                          "amount_received": fact["amount"], "status": "succeeded"}
            kind = "checkout.session.completed" if "session" in fact else "payment_intent.succeeded"
            body = json.dumps({
                "id": number("evt_"), "object": "event", "api_version": "2025-10-29.clover", "created": now,
                "livemode": True, "type": kind, "data": {"object": about},
            })
            signature = sdk.WebhookSignature._compute_signature(f"{now}.{body}", secret)
            headers = {"Content-Type": "application/json", "Stripe-Signature": f"t={now},v1={signature}"}

            def forged():
                same(True, post("stripe", headers, body.encode() + b" ")[0] >= 400)

            check(library, f"forged to us {fact['pay_no']}", forged)
            check(library, f"notice to us {fact['pay_no']}",
                  lambda: same(2, post("stripe", headers, body.encode())[0] // 100))

    drive(library, sign, None, create=create, query=query, paid=paid, notice=told, refund=refund,
          refund_query=refund_query, close=close, retry=retry)


def drive(library, sign, verify, **acts):
    if MODE == "sign":
        sign()
    elif MODE == "verify":
        verify()
    else:
        for name, act in acts.items():
            check(library, name.replace("_", " "), act)


{"alipay": alipay, "wechatpay": wechatpay, "stripe": stripe}[sys.argv[1]]()
