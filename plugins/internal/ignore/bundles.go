package ignore

import (
	"encoding/base64"
	"encoding/pem"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Bundles returns the CA bundles of webhooks, conversions and API services to leave as in live: those injected by
// others, such as cert-manager, where the manifest has none, or only a placeholder. Until the injector notices a
// missing bundle, every request the server is asked about fails. A bundle stays only with its own server.
func Bundles(wanted, live map[string]any) []Pointer {
	apiVersion, _ := wanted["apiVersion"].(string)
	kind, _ := wanted["kind"].(string)
	switch schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind() {
	case schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:
		var all []Pointer
		webhooks, _ := wanted["webhooks"].([]any)
		for n := range webhooks {
			all = append(all, bundleAt(wanted, live, "webhooks", strconv.Itoa(n), "clientConfig")...)
		}
		return all
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return bundleAt(wanted, live, "spec", "conversion", "webhook", "clientConfig")
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		if child(wanted, "spec", "insecureSkipTLSVerify") == true {
			return nil
		}
		return bundleAt(wanted, live, "spec")
	default:
		return nil
	}
}

// bundleAt returns the bundle of the client configuration at a path, if it is left as in live.
func bundleAt(wanted, live map[string]any, path ...string) []Pointer {
	config := at(wanted, path)
	theirs := at(live, In(wanted, live, path))
	if !sameServer(config, theirs) {
		return nil
	}
	bundle, injected := child(config, "caBundle"), child(theirs, "caBundle")
	if isNone(injected) || !isNone(bundle) && (isReal(bundle) || !isReal(injected)) {
		return nil
	}
	return []Pointer{append(path, "caBundle")}
}

// at returns the value at a pointer; nil for nothing.
func at(value any, p Pointer) any {
	for _, name := range p {
		if list, isList := value.([]any); isList {
			n, err := strconv.Atoi(name)
			if err != nil {
				return nil
			}
			value = indexed(list, n)
			continue
		}
		value = child(value, name)
	}
	return value
}

// sameServer compares the servers of client configurations. Ports and paths are no matter of certificates.
func sameServer(a, b any) bool {
	service, other := child(a, "service"), child(b, "service")
	if service == nil && other == nil {
		return child(a, "url") != nil && child(a, "url") == child(b, "url")
	}
	return service != nil && other != nil && reflect.DeepEqual(child(service, "namespace"), child(other, "namespace")) &&
		reflect.DeepEqual(child(service, "name"), child(other, "name"))
}

func isNone(bundle any) bool { return bundle == nil || bundle == "" }

// isReal reports whether a bundle has a certificate. Charts ship a line end or a word in its place.
func isReal(bundle any) bool {
	text, _ := bundle.(string)
	document, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	for block, rest := pem.Decode(document); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return true
		}
	}
	return false
}
