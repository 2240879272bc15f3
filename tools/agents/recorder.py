"""A proxy between an agent and weir that keeps what passes."""

import http.client
import http.server
import json
import threading
import urllib.parse

HOP = {"connection", "keep-alive", "transfer-encoding"}  # headers that are about one connection


class Exchange:
    """A request and the answer to it."""

    def __init__(self, method, path, body):
        self.method, self.path, self.body = method, path, body
        self.status, self.ignored, self.answer = 0, "", b""

    def json(self):
        """The body of the request, or {} if it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return {}

    def events(self):
        """The JSON texts of the answer: its events if it is a stream, else the whole."""
        for line in self.answer.decode(errors="replace").splitlines():
            text = line.removeprefix("data: ")
            if text.startswith("{"):
                yield json.loads(text)

    def usage(self):
        """The tokens of the prompt and how many of them were cached, as the answer tells; None if it does not."""
        found = None
        for event in self.events():
            for holder in [event, event.get("message"), event.get("response")]:
                usage = (holder or {}).get("usage") or {}
                if "prompt_tokens" in usage:
                    found = usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
                elif "input_tokens_details" in usage:
                    found = usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]
                elif "cache_read_input_tokens" in usage:  # Messages: input_tokens are those that were not cached
                    cached = usage["cache_read_input_tokens"]
                    found = usage["input_tokens"] + usage["cache_creation_input_tokens"] + cached, cached
        return found


class Recorder:
    """Listens on a free port of this machine, passes requests on to url and keeps them in exchanges."""

    def __init__(self, url):
        self.exchanges = []
        target = urllib.parse.urlsplit(url).netloc
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                exchange = Exchange(self.command, self.path, body)
                recorder.exchanges.append(exchange)
                upstream = http.client.HTTPConnection(target)
                headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP | {"host", "accept-encoding"}}
                upstream.request(self.command, self.path, body, headers)
                answer = upstream.getresponse()
                exchange.status, exchange.ignored = answer.status, answer.headers.get("X-Ignored-Fields", "")
                self.send_response(answer.status)
                for k, v in answer.getheaders():
                    if k.lower() not in HOP:
                        self.send_header(k, v)
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                try:
                    while piece := answer.read1(65536):
                        exchange.answer += piece
                        self.wfile.write(piece)
                        self.wfile.flush()
                except ConnectionError:  # the agent has left
                    upstream.close()

            do_GET = do_POST = do_HEAD = do_DELETE = serve

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
