package deployer_test

import (
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

func export(key, path, namespace, name string) object {
	return object{"key": key, "jsonPath": path, "fromResource": object{
		"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": namespace,
	}}
}

// anonymous returns access to the cluster with a token that it does not know.
func anonymous() *rest.Config {
	return &rest.Config{
		Host:            plugintest.Config().Host,
		BearerToken:     "no-such-token",
		TLSClientConfig: rest.TLSClientConfig{CAData: plugintest.Config().CAData},
	}
}
