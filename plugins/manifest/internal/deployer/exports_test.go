package deployer_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestExports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		reason  string
		exports any
		want    object
	}{
		"map": {
			reason:  "the form of Landscaper, as in its documentation",
			exports: object{"defaultTimeout": "5m", "exports": []any{export("test", ".data", w.Namespace, "a")}},
			want:    object{"test": object{"foo": "bar", "num": "7"}},
		},
		"list": {
			reason:  "the direct list, with braces and without, and with nested keys",
			exports: []any{export("a.b", "{.data.foo}", w.Namespace, "a"), export("a.c", "data.num", w.Namespace, "a")},
			want:    object{"a": object{"b": "bar", "c": "7"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			item := w.item(with(config(w.configMap("a", object{"foo": "bar", "num": "7"})), "exports", c.exports))
			result := w.mustSucceed(item)
			if diff := cmp.Diff(c.want, result.Succeeded.Exports); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

func TestExportWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(with(config(w.configMap("a", object{"foo": "bar"})), "exports", []any{
		export("late.value", ".data.late", w.Namespace, "a"),
		export("other", ".data.x", w.Namespace, "elsewhere"),
	}))
	w.mustWait(w.Do(plugintest.Reconcile, item), `export "late.value"`, "ConfigMap "+w.Namespace+"/a has no value at .data.late",
		`export "other"`, "ConfigMap "+w.Namespace+"/elsewhere does not exist")
	w.Patch(configMaps, "a", `{"data":{"late":"now"}}`)
	w.mustWait(w.Do(plugintest.Reconcile, item), `export "other"`)
	w.mustSucceed(w.item(config(w.configMap("elsewhere", object{"x": "y"}))))
	result := w.mustSucceed(item)
	if diff := cmp.Diff(object{"late": object{"value": "now"}, "other": "y"}, result.Succeeded.Exports); diff != "" {
		t.Errorf("exports: -want +got:\n%s", diff)
	}
}

func TestConcurrentItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var jobs sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		jobs.Go(func() {
			item := w.itemOf(name, config(w.configMap(name, nil), w.configMap(name+"-more", nil), w.custom("Gadget"+name, name), w.crd("Gadget"+name)))
			if result := w.UntilDone(plugintest.Reconcile, item); result.Succeeded == nil {
				t.Errorf("item %s: expected success, but found: %s", name, result)
				return
			}
			if result := w.UntilDone(plugintest.Delete, item); result.Succeeded == nil {
				t.Errorf("item %s: expected the deletion to succeed, but found: %s", name, result)
			}
		})
	}
	jobs.Wait()
}
