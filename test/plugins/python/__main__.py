"""A deployer in another language, for tests: it writes a greeting into a file.

    apiVersion: test.pergola.dev/v1
    kind: Greeting
    file: /path/of/the/file     # absolute; removed when the item is deleted or names another one
    greeting: good morning
    waitFor: /path/of/another   # optional: the call does not end before this file is there
"""

import json
import os

import pergola

API_VERSION = "test.pergola.dev/v1"
TYPE = "test.pergola.dev/python"


def check(document, path, kind, required, optional=()):
    """Returns everything that is wrong with a document as (field, message)."""
    if not isinstance(document, dict):
        return [(path, "expected an object, but there is none")]
    expected = {"apiVersion": API_VERSION, "kind": kind}
    problems = [(f"{path}.{name}", f"expected {want!r}, but found {document.get(name)!r}")
                for name, want in expected.items() if document.get(name) != want]
    problems += [(path, f"unknown field \"{name}\"") for name in document if name not in {*expected, *required, *optional}]
    problems += [(f"{path}.{name}", "expected a text, but it is missing") for name in required if name not in document]
    problems += [(f"{path}.{name}", f"expected a text, but found {document[name]!r}")
                 for name in (*required, *optional) if name in document and not isinstance(document[name], str)]
    return problems


def check_config(config):
    """Returns everything that is wrong with a provider configuration."""
    problems = check(config, "spec.config", "Greeting", required=("file", "greeting"), optional=("waitFor",))
    if not problems and not os.path.isabs(config["file"]):
        problems.append(("spec.config.file", f"expected an absolute path, but found {config['file']!r}"))
    return problems


class Deployer:
    """Writes greetings, with a signature that the plugin's own configuration may give."""

    def __init__(self):
        self.signature = ""

    def get_info(self, _):
        info = pergola.message("GetInfoResponse")(name="python", version="0.1.0", deploy_item_types=[TYPE])
        info.capabilities.configure = info.capabilities.validate = True
        return info

    def configure(self, request):
        """Takes {apiVersion, kind: Signature, signature}. The host hands over JSON, or nothing for defaults."""
        response = pergola.message("ConfigureResponse")()
        document = {"apiVersion": API_VERSION, "kind": "Signature"}
        try:
            document = json.loads(request.document) if request.document else document
            problems = check(document, "config", "Signature", required=(), optional=("signature",))
        except ValueError as e:
            problems = [("config", f"expected JSON: {e}")]
        if not problems:
            self.signature = document.get("signature", "")
        for field, text in problems:
            response.problems.add(field=field, message=text)
        return response

    def validate(self, request):
        response = pergola.message("ValidateResponse")()
        try:
            problems = check_config(json.loads(request.provider_configuration))
        except ValueError as e:
            problems = [("spec.config", f"expected JSON: {e}")]
        for field, text in problems:
            response.problems.add(field=field, message=text)
        return response

    def reconcile(self, call):
        config = call.config
        if problems := check_config(config):
            raise pergola.configuration_failure(f"{field}: {text}" for field, text in problems)
        wait_for = config.get("waitFor")
        if wait_for:
            call.progress("wait", f"waiting for {wait_for}")
        while wait_for and not os.path.exists(wait_for):
            if call.stopping.wait(0.1):
                return pergola.in_progress(f"the file {wait_for} to appear", seconds=1)

        # What is to be written is noted before it is: whatever happens between the two, nothing is left behind in the end.
        outdated = [file for file in files(call) if file != config["file"]]
        call.save(status([config["file"], *outdated]))
        write(config["file"], config["greeting"] + self.signature)
        for file in outdated:
            remove(file)
        pergola.log.info("greeting is written", extra={"item": call.item["metadata"]["name"], "jobID": call.job_id})
        return pergola.succeeded({"greeting": config["greeting"]}, status([config["file"]]))

    def delete(self, call):
        for file in files(call):
            remove(file)
        return pergola.succeeded()


def status(written):
    """Returns the provider status that notes the files that may be there."""
    return {"apiVersion": API_VERSION, "kind": "GreetingStatus", "files": written}


def files(call):
    """Returns the files that an earlier call may have written."""
    return (call.provider_status or {}).get("files", [])


def write(file, text):
    """Writes a file at once or not at all: the process may be killed at any time."""
    with open(file + ".new", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(file + ".new", file)


def remove(file):
    """Removes a file, if it is there, and what is left of writing it."""
    for path in (file, file + ".new"):
        try:
            os.remove(path)
        except FileNotFoundError:
            pass


pergola.serve(Deployer())
