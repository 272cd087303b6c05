"""The plugin's side of Pergola's protocol, as docs/protocol.md says it: all that a deployer in Python needs.

It uses grpc and protobuf of the distribution (Debian's python3-grpcio) and the program openssl. The messages are made when the
program starts, from descriptors.binpb beside this file: a google.protobuf.FileDescriptorSet of the protocol and of gRPC's health
service, such as `buf build` or `protoc --include_imports --descriptor_set_out` writes.
"""

import base64
import concurrent.futures
import json
import logging
import os
import pkgutil
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref

import grpc
from google.protobuf import descriptor_pb2, message_factory

COOKIE = ("PERGOLA_DEPLOYER_PLUGIN", "c6a1f3e2-8d6b-4f1e-9b57-2d5c7c0f4a90")
PROTOCOL_VERSION = "1"
MAX_MESSAGE_BYTES = 64 << 20
HEARTBEAT_SECONDS = 5  # the protocol wants one every ten seconds at the latest
MAX_THREADS = 256  # each call has one for as long as it lasts, and a health check must never wait for one
EXIT_HOST_GONE = 3

_files = descriptor_pb2.FileDescriptorSet.FromString(pkgutil.get_data(__name__, "descriptors.binpb"))
_messages = message_factory.GetMessages(_files.file)
log = logging.getLogger()


def message(name):
    """Returns the class of a message of the protocol."""
    return _messages["pergola.deployer.v1." + name]


def _text(value):
    """Returns a text that can be sent: what is no valid Unicode, such as some names of files, is replaced."""
    return str(value).encode(errors="replace").decode()


class Failure(Exception):
    """Says that a call has failed. codes are those of Landscaper; without one the host tries again. The text goes to the user."""

    def __init__(self, reason, text, *codes):
        super().__init__(text)
        self.reason, self.codes = reason, codes


def configuration_failure(problems):
    """Returns the Failure for a provider configuration that is wrong: the job fails at once."""
    return Failure("ParseProviderConfiguration", "; ".join(problems), "ERR_CONFIGURATION_PROBLEM")


def in_progress(waiting_for, seconds=0):
    """Returns the result of a call whose job goes on: the host calls again, after so many seconds at the latest."""
    result = message("Result")()
    result.in_progress.waiting_for = _text(waiting_for)
    result.in_progress.poll_after.FromMilliseconds(int(seconds * 1000))
    return result


def succeeded(exports=None, provider_status=None):
    """Returns the result of a call whose job is done."""
    result = message("Result")()
    result.succeeded.exports = b"" if exports is None else json.dumps(exports).encode()
    result.provider_status = b"" if provider_status is None else json.dumps(provider_status).encode()
    return result


class Call:
    """One call of an operation: what it is for, and the conversation with the host while it lasts."""

    _turns, _turns_lock = weakref.WeakValueDictionary(), threading.Lock()

    def __init__(self, start):
        self.item = json.loads(start.deploy_item)
        if not isinstance(self.item, dict) or not isinstance(self.item.get("metadata"), dict):
            raise ValueError("expected an object with metadata")
        self.job_id = start.job_id
        # Set when the call is to end soon: the host has asked for it, or has cancelled the call.
        self.stopping = threading.Event()
        self._said = queue.SimpleQueue()  # what is to be sent; None: nobody listens any more
        self._lock = threading.Lock()
        self._sequence, self._saving, self._cancelled = 0, {}, False

    @property
    def config(self):
        """The provider configuration; None for none."""
        return (self.item.get("spec") or {}).get("config")

    @property
    def provider_status(self):
        """The provider status that was saved last; None for none."""
        return (self.item.get("status") or {}).get("providerStatus")

    def progress(self, step, text):
        """Tells the user what is being done or waited for."""
        said = message("PluginMessage")()
        said.progress.step, said.progress.message = step, _text(text)
        self._said.put(said)

    def save(self, provider_status):
        """Saves a provider status, and returns when it is in the item. Raises Failure if it could not be saved."""
        said, answer = message("PluginMessage")(), queue.SimpleQueue()
        said.provider_status.document = json.dumps(provider_status).encode()
        with self._lock:
            if self._cancelled:
                raise Failure("Cancelled", "the call was cancelled")
            self._sequence += 1
            self._saving[self._sequence] = answer
            said.provider_status.sequence = self._sequence
            self._said.put(said)
        if error := answer.get():
            raise Failure("SaveProviderStatus", error)

    def listen(self, requests):
        """Hears the host until it has nothing more to say."""
        try:
            for heard in requests:
                if heard.HasField("acknowledgement"):
                    with self._lock:
                        answer = self._saving.pop(heard.acknowledgement.sequence, None)
                    if answer:
                        answer.put(heard.acknowledgement.error)
                elif heard.HasField("stop"):
                    self.stopping.set()
        except grpc.RpcError:
            pass  # the call was cancelled

    def cancel(self):
        """Ends the conversation: whoever waits for an answer is told that none will come."""
        self.stopping.set()
        with self._lock:
            self._cancelled = True
            for answer in self._saving.values():
                answer.put("the call was cancelled")
            self._saving.clear()
        self._said.put(None)

    def work(self, function):
        """Carries the call out. An earlier call for the item that was cancelled may still be at work; this one waits for it."""
        with self._turns_lock:
            turn = self._turns.setdefault(str(self.item["metadata"].get("uid")), threading.Lock())
        said = message("PluginMessage")()
        with turn:
            if self._cancelled:
                return
            self._carry_out(function, said.result)
        self._said.put(said)

    def _carry_out(self, function, result):
        try:
            result.CopyFrom(function(self))
        except Failure as failure:
            result.failed.errors.add(codes=failure.codes, reason=failure.reason, message=_text(failure))
        except OSError as failure:  # what is wrong with the world may pass
            result.failed.errors.add(reason="DeployerError", message=_text(failure))
        except Exception:  # a mistake of this program happens again; the stack is for its author, not for the user
            log.exception("deployer failed", extra={"jobID": self.job_id})
            result.failed.errors.add(codes=["ERR_INTERNAL_PROBLEM"], reason="PluginPanic",
                                     message="the deployer raised an exception; its log has the stack")

    def conversation(self):
        """Yields what is to be sent: heartbeats while there is nothing else, and the result as the last."""
        while True:
            try:
                said = self._said.get(timeout=HEARTBEAT_SECONDS)
            except queue.Empty:
                said = message("PluginMessage")()
                said.heartbeat.SetInParent()
            if said is None:
                return
            yield said
            if said.HasField("result"):
                return


def _operation(name, function):
    """Returns the handler of a bidirectional stream."""
    def handle(requests, context):
        first = next(requests, None)
        if first is None or not first.HasField("start"):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the first message of {name} must be start")
        try:
            call = Call(first.start)
        except (ValueError, RecursionError) as e:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{name}: the deploy item cannot be read: {e}")
        if not context.add_callback(call.cancel):
            return
        threading.Thread(target=call.listen, args=(requests,), daemon=True).start()
        threading.Thread(target=call.work, args=(function,), daemon=True).start()
        yield from call.conversation()

    return grpc.stream_stream_rpc_method_handler(handle, message("HostMessage").FromString, message("PluginMessage").SerializeToString)


def _unary(name, function):
    """Returns the handler of a call with one request and one response."""
    return grpc.unary_unary_rpc_method_handler(
        lambda request, _: function(request), message(name + "Request").FromString, message(name + "Response").SerializeToString)


def _health(request, context):
    answer = _messages["grpc.health.v1.HealthCheckResponse"]()
    if request.service not in ("", "plugin"):
        context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {request.service!r}")
    answer.status = answer.SERVING
    return answer


def _services(deployer, ended):
    """Returns the handlers of all services. Those of a capability are there if the deployer has a method for it."""

    def shutdown(_, context):
        context.add_callback(ended.set)
        return b""  # a message without fields

    methods = {
        "GetInfo": _unary("GetInfo", deployer.get_info),
        "Reconcile": _operation("Reconcile", deployer.reconcile),
        "Delete": _operation("Delete", deployer.delete),
    }
    for name in ("Configure", "Validate"):
        if function := getattr(deployer, name.lower(), None):
            methods[name] = _unary(name, function)
    check = grpc.unary_unary_rpc_method_handler(
        _health, _messages["grpc.health.v1.HealthCheckRequest"].FromString,
        _messages["grpc.health.v1.HealthCheckResponse"].SerializeToString)
    return (
        grpc.method_handlers_generic_handler("pergola.deployer.v1.DeployerService", methods),
        grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check}),
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)}),
    )


def _credentials():
    """Returns the server's credentials, and its certificate for the host, both made for this process alone."""
    pem = subprocess.run(
        ["openssl", "req", "-x509", "-config", "/dev/null", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "3650", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
         "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", "-"],
        check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
    begin = pem.index(b"-----BEGIN CERTIFICATE-----")
    key, certificate = pem[:begin], pem[begin:]
    der = base64.b64decode(b"".join(certificate.splitlines()[1:-1]))
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=os.environ["PLUGIN_CLIENT_CERT"].encode(), require_client_auth=True)
    return credentials, base64.b64encode(der).rstrip(b"=").decode()


class _JSONLines(logging.Formatter):
    """Writes records as the host reads them back: one JSON object in a line, with time, level and msg."""

    def format(self, record):
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        level = {"WARNING": "WARN", "CRITICAL": "ERROR"}.get(record.levelname, record.levelname)
        fields = {"time": f"{at}.{int(record.msecs):03}Z", "level": level, "msg": record.getMessage()}
        fields |= {name: vars(record)[name] for name in ("item", "jobID") if name in vars(record)}
        if record.exc_info:
            fields["stack"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def _begin_logging():
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JSONLines())
    level = {"DEBUG": logging.DEBUG, "WARN": logging.WARNING, "ERROR": logging.ERROR}
    logging.basicConfig(handlers=[handler], level=level.get(os.environ.get("PERGOLA_LOG_LEVEL", "").upper(), logging.INFO))


def _end_with_host():
    """Ends the process when the other end of the lifeline is closed, which the kernel does however the host ends."""
    lifeline = int(os.environ["PERGOLA_LIFELINE_FD"])
    os.set_inheritable(lifeline, False)  # nobody else is to hold it open

    def wait():
        while os.read(lifeline, 1):
            pass
        os._exit(EXIT_HOST_GONE)
    threading.Thread(target=wait, daemon=True).start()


def serve(deployer):
    """Serves the deployer to the host that has started this process, and ends the process when the host says so."""
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.exit("This is a deployer plugin for Pergola. It is not run by hand: put it into the host's plugin directory.")
    # A line on standard output is the handshake. Whatever else the program prints must not get in its way.
    handshake = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _begin_logging()
    if PROTOCOL_VERSION not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", PROTOCOL_VERSION).split(","):
        log.warning("the host speaks none of the versions of the protocol that this plugin has")  # it says the same, with names
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the host gets them, too, and ends its plugins in order
    _end_with_host()

    threading.stack_size(1 << 20)  # a call has three threads, and the usual 8 MiB of each count where memory is limited
    ended = threading.Event()
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(MAX_THREADS), handlers=_services(deployer, ended),
        options=[("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.max_send_message_length", MAX_MESSAGE_BYTES)])
    credentials, certificate = _credentials()
    address = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "plugin")
    server.add_secure_port("unix:" + address, credentials)
    server.start()
    print("1", PROTOCOL_VERSION, "unix", address, "grpc", certificate, sep="|", file=handshake, flush=True)
    ended.wait()
    os._exit(0)  # not through threads that are at work: the host has cancelled them and waits for nothing
