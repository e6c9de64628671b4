// Drives one widely used npm library: judge.mjs <alipay|stripe> drive|sign [<file>].

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { AlipaySdk } from 'alipay-sdk';
import Stripe from 'stripe';

const { SIMULATOR_URL, RECEIVER_URL, KEYS, RECORDED } = process.env;
const [, , channel, mode, what] = process.argv;
const key = (name) => readFileSync(join(KEYS, name), 'utf8');
const number = (prefix) => prefix + process.hrtime.bigint().toString(36) + Math.floor(Math.random() * 46656).toString(36);

async function check(library, operation, act) {
  let told = 'ok\t';
  try {
    await act();
  } catch (error) {
    told = `FAIL\t${String(error).replace(/\s+/g, ' ')}`;
  }
  console.log(`RESULT\t${library}\t${operation}\t${told}`);
}

async function control(path) {
  const response = await fetch(`${SIMULATOR_URL}/control/${path}`, { method: 'POST', body: '{}' });
  assert.equal(response.status, 200);
}

// Waits for a notice of the simulator's.
async function notice(isIt) {
  for (let wait = 0; wait < 1000; wait += 1) {
    for (const name of readdirSync(RECORDED).filter((name) => name.endsWith('.json'))) {
      const one = JSON.parse(readFileSync(join(RECORDED, name), 'utf8'));
      const text = Buffer.from(one.body, 'base64').toString('utf8');
      if (isIt(text, one)) return { ...one, text };
    }
    await sleep(20);
  }
  throw new Error('no such notice came');
}

async function post(to, headers, body) {
  return fetch(`${RECEIVER_URL}/v1/callbacks/${to}/main`, { method: 'POST', headers, body });
}

async function alipay() {
  const library = 'npm alipay-sdk';
  const sdk = new AlipaySdk({
    appId: '2021000000000001',
    privateKey: key('alipay-main.app.private.pem'),
    keyType: 'PKCS8',
    alipayPublicKey: key('alipay-main.channel.public.pem'),
    gateway: `${SIMULATOR_URL}/gateway.do`,
    signType: 'RSA2',
  });
  const ours = number('NA');
  const call = (method, bizContent) =>
    sdk.exec(method, { notify_url: `${RECEIVER_URL}/v1/callbacks/alipay/main`, bizContent }, { validateSign: true });
  const query = () => call('alipay.trade.query', { out_trade_no: ours });

  await check(library, 'create', async () => {
    const order = { out_trade_no: ours, total_amount: '12.30', subject: '茶 tea' };
    assert.equal((await call('alipay.trade.precreate', order)).code, '10000');
  });
  await check(library, 'query', async () => {
    await control(`orders/${ours}/meet`);
    assert.equal((await query()).tradeStatus, 'WAIT_BUYER_PAY');
  });
  await check(library, 'paid', async () => {
    await control(`orders/${ours}/pay`);
    assert.equal((await query()).tradeStatus, 'TRADE_SUCCESS');
  });
  await check(library, 'notice', async () => {
    const { text } = await notice((text) => text.includes(`out_trade_no=${ours}`));
    const fields = Object.fromEntries(new URLSearchParams(text));
    assert.equal(sdk.checkNotifySignV2({ ...fields }), true);
    assert.equal(sdk.checkNotifySignV2({ ...fields, total_amount: '0.01' }), false);
  });
  await check(library, 'refund', async () => {
    const refund = { out_trade_no: ours, out_request_no: 'R1', refund_amount: '2.30' };
    assert.equal((await call('alipay.trade.refund', refund)).fundChange, 'Y');
    assert.equal((await call('alipay.trade.refund', refund)).fundChange, 'N');
  });
  await check(library, 'refund query', async () => {
    const told = await call('alipay.trade.fastpay.refund.query', { out_trade_no: ours, out_request_no: 'R1' });
    assert.equal(told.refundStatus, 'REFUND_SUCCESS');
  });
  await check(library, 'close', async () => {
    const page = number('NA');
    const url = sdk.pageExecute('alipay.trade.page.pay', 'GET', {
      bizContent: { out_trade_no: page, total_amount: '1.00', subject: 'tea', product_code: 'FAST_INSTANT_TRADE_PAY' },
    });
    assert.match(await (await fetch(url)).text(), /支付/);
    assert.equal((await call('alipay.trade.close', { out_trade_no: page })).code, '10000');
  });
}

async function stripe() {
  const library = 'npm stripe';
  const { hostname, port } = new URL(SIMULATOR_URL);
  const client = new Stripe(key('stripe-main.secret-key'), { host: hostname, port, protocol: 'http', maxNetworkRetries: 2 });
  const secret = key('stripe-main.webhook-secret');
  if (mode === 'sign') {
    for (const fact of JSON.parse(readFileSync(what, 'utf8')).filter((fact) => fact.channel === 'stripe')) {
      await judged(library, client, secret, fact);
    }
    return;
  }
  const ours = number('NS');
  let intent;
  let refund;
  await check(library, 'create', async () => {
    const params = { amount: 1234, currency: 'usd', metadata: { pay_no: ours } };
    const options = { idempotencyKey: `pay:${ours}` };
    intent = await client.paymentIntents.create(params, options);
    assert.equal((await client.paymentIntents.create(params, options)).id, intent.id);
    const other = client.paymentIntents.create({ ...params, amount: 1235 }, options);
    await assert.rejects(other, { type: 'StripeIdempotencyError' });
  });
  await check(library, 'query', async () => {
    assert.equal((await client.paymentIntents.retrieve(intent.id)).amount, 1234);
  });
  await check(library, 'paid', async () => {
    await control(`orders/${ours}/pay`);
    assert.equal((await client.paymentIntents.retrieve(intent.id)).status, 'succeeded');
  });
  await check(library, 'notice', async () => {
    const one = await notice((text) => text.includes('payment_intent') && text.includes(ours));
    const header = one.headers['stripe-signature'];
    assert.equal(client.webhooks.constructEvent(one.text, header, secret).type, 'payment_intent.succeeded');
    assert.throws(() => client.webhooks.constructEvent(`${one.text} `, header, secret));
  });
  await check(library, 'refund', async () => {
    refund = await client.refunds.create({ payment_intent: intent.id, amount: 234 });
    assert.equal(refund.status, 'succeeded');
  });
  await check(library, 'refund query', async () => {
    assert.equal((await client.refunds.retrieve(refund.id)).amount, 234);
    assert.equal((await client.refunds.list({ payment_intent: intent.id })).data.length, 1);
  });
  await check(library, 'close', async () => {
    const product = { currency: 'jpy', unit_amount: 500, product_data: { name: '茶 tea' } };
    const session = await client.checkout.sessions.create({
      mode: 'payment', client_reference_id: number('NC'), success_url: 'https://shop.example/ok',
      line_items: [{ quantity: 2, price_data: product }],
    });
    assert.equal(session.amount_total, 1000);
    assert.equal((await client.checkout.sessions.expire(session.id)).status, 'expired');
  });
}

// Signs an event about a fact with the library's own function and lets the receiver judge it.
async function judged(library, client, secret, fact) {
  const about = { livemode: true, currency: fact.currency.toLowerCase(), metadata: { pay_no: fact.pay_no } };
  const intent = { id: fact.txn, object: 'payment_intent', amount: fact.amount, amount_received: fact.amount, status: 'succeeded' };
  const session = {
    id: fact.session, object: 'checkout.session', client_reference_id: fact.pay_no, amount_total: fact.amount,
    payment_intent: fact.txn, payment_status: 'paid', mode: 'payment', status: 'complete',
  };
  const created = Math.floor(Date.now() / 1000);
  const payload = JSON.stringify({
    id: number('evt_'), object: 'event', api_version: '2025-10-29.clover', created, livemode: true,
    type: fact.session ? 'checkout.session.completed' : 'payment_intent.succeeded',
    data: { object: { created, ...about, ...(fact.session ? session : intent) } },
  });
  const header = client.webhooks.generateTestHeaderString({ payload, secret });
  const headers = { 'content-type': 'application/json', 'stripe-signature': header };
  await check(library, `forged to us ${fact.pay_no}`, async () => {
    assert.ok((await post('stripe', headers, `${payload} `)).status >= 400);
  });
  await check(library, `notice to us ${fact.pay_no}`, async () => {
    assert.ok((await post('stripe', headers, payload)).ok);
  });
}

await { alipay, stripe }[channel]();
