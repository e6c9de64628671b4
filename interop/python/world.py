"""Where everything is, what was recorded, and how results are told."""

import base64
import json
import os
import random
import time
import urllib.parse
import urllib.request

SIMULATOR = os.environ["SIMULATOR_URL"]
RECEIVER = os.environ["RECEIVER_URL"]
KEYS = os.environ["KEYS"]
WAIT_S_MAX = 20

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def key(name):
    with open(os.path.join(KEYS, name), encoding="utf-8") as file:
        return file.read()


def number(prefix):
    """A number that no other run has used."""
    return f"{prefix}{time.time_ns():x}{random.randrange(1 << 16):x}"


def check(library, operation, act):
    """Runs one operation, which fails by raising, and tells how it went."""
    try:
        act()
        told = ("ok", "")
    except Exception as error:  # whatever a library raises is its verdict
        told = ("FAIL", f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " "))
    print("RESULT", library, operation, *told, sep="\t", flush=True)


def same(expected, actual):
    if expected != actual:
        raise AssertionError(f"expected {expected!r}, got {actual!r}")


def control(path, body=None):
    request = urllib.request.Request(
        f"{SIMULATOR}/control/{path}", data=json.dumps(body or {}).encode(), method="PUT" if path == "plan" else "POST"
    )
    with opener.open(request, timeout=30) as response:
        return json.load(response)


def recorded(folder):
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                one = json.load(file)
            one["body"] = base64.b64decode(one["body"])
            yield one


def notice(is_it):
    """Waits for a notice of the simulator's."""
    until = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < until:
        for one in recorded(os.environ["RECORDED"]):
            if is_it(one):
                return one
        time.sleep(0.02)
    raise AssertionError("no such notice came")


def form(text):
    """A decoded form, its empty values kept."""
    return dict(urllib.parse.parse_qsl(text, keep_blank_values=True))


def facts(path, channel):
    with open(path, encoding="utf-8") as file:
        return [fact for fact in json.load(file) if fact["channel"] == channel]


def post(channel, headers, body):
    """Posts a notice of a library's making to the account's address at the receiver."""
    request = urllib.request.Request(
        f"{RECEIVER}/v1/callbacks/{channel}/main", data=body, headers=headers, method="POST"
    )
    try:
        with opener.open(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
