"""Records what arrives, a file for each request, and answers as a merchant would; or passes it on and records it on its way.

    receiver.py <port> <folder> [<address to pass on to>]
"""

import base64
import http.server
import json
import os
import sys
import threading
import urllib.error
import urllib.request

PORT, FOLDER = int(sys.argv[1]), sys.argv[2]
FORWARD = sys.argv[3] if len(sys.argv) > 3 else ""
BODY_BYTES_MAX = 512 * 1024
NOT_PASSED_ON = {"host", "content-length", "connection", "transfer-encoding"}

lock = threading.Lock()
count = 0


def keep(method, path, headers, body):
    """Writes a request beside its place and moves it there, so that no reader sees half of it."""
    global count
    with lock:
        count += 1
        name = os.path.join(FOLDER, f"{count:06}")
    record = {
        "method": method,
        "path": path,
        "headers": {name.lower(): value for name, value in headers.items()},
        "body": base64.b64encode(body).decode(),
    }
    with open(name + ".new", "w", encoding="utf-8") as file:
        json.dump(record, file)
    os.rename(name + ".new", name + ".json")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("content-length") or 0)
        if length > BODY_BYTES_MAX:
            self.send_error(413)
            return
        body = self.rfile.read(length)
        keep(self.command, self.path, self.headers, body)
        status, headers, text = self.passed_on(body) if FORWARD else (200, {}, b"success")
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in NOT_PASSED_ON:
                self.send_header(name, value)
        if status != 204:
            self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def passed_on(self, body):
        headers = {name: value for name, value in self.headers.items() if name.lower() not in NOT_PASSED_ON}
        request = urllib.request.Request(
            FORWARD + self.path, data=body or None, headers=headers, method=self.command
        )
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
                return response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
