package export_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

type fields = map[string]any

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

// world has Targets of its API server. In texts NS is the namespace.
type world struct {
	*plugintest.World

	targets map[string]*target.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: plugintest.New(t)}
	w.targets = map[string]*target.Client{"": w.Client(plugintest.Config()), "other": w.Client(plugintest.Config())}
	return w
}

var errUnknownTarget = errors.New("no such Target")

func (w *world) lookup(_ context.Context, name string) (*target.Client, error) {
	if client, ok := w.targets[name]; ok && name != "" {
		return client, nil
	}
	return nil, errUnknownTarget
}

// create creates an object in the namespace.
func (w *world) create(resource plugintest.Resource, kind, name string, content fields) *unstructured.Unstructured {
	w.Helper()
	if content == nil {
		content = fields{}
	}
	content["kind"], content["metadata"] = kind, fields{"name": name}
	content["apiVersion"] = resource.GroupVersion().String()
	return w.Create(resource, content)
}

func (w *world) configMap(name string, data fields) *unstructured.Unstructured {
	return w.create(plugintest.ConfigMaps, "ConfigMap", name, fields{"data": data})
}

// account creates a ServiceAccount, which refers to a Secret in a list.
func (w *world) account(name, secret string) {
	content := fields{"secrets": []any{fields{"name": secret}}}
	w.create(plugintest.ServiceAccounts, "ServiceAccount", name, content)
}

func (w *world) parse(exports ...managedresource.Export) []export.Value {
	w.Helper()
	values, problems := export.Parse(&managedresource.Exports{Exports: exports}, field.NewPath("exports", "exports"))
	if len(problems) > 0 {
		w.Fatal(problems.ToAggregate())
	}
	return values
}

func (w *world) read(values []export.Value, atHand ...*unstructured.Unstructured) (export.Result, error) {
	return export.Read(w.Context(), w.targets[""], values, atHand, w.lookup, time.Now())
}

// of is an export of a value of an object in the namespace, unless the kind is cluster-scoped. The kind is apiVersion
// and kind.
func (w *world) of(key, path, kind, name string) managedresource.Export {
	apiVersion, kind, _ := strings.Cut(kind, " ")
	return managedresource.Export{Key: key, JSONPath: path, FromResource: &managedresource.TypedObjectReference{
		APIVersion: apiVersion, Kind: kind, Name: name, Namespace: w.Namespace,
	}}
}

// through makes an export one of an object behind a reference.
func through(e managedresource.Export, kind, path string) managedresource.Export {
	e.FromObjectReference = &managedresource.FromObjectReference{APIVersion: "v1", Kind: kind, JSONPath: path}
	return e
}

// at makes an export one of another Target.
func at(e managedresource.Export, target string) managedresource.Export {
	e.TargetName = &target
	return e
}

func (w *world) mustRead(result export.Result, err error, exports fields, waiting ...string) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	if diff := cmp.Diff(exports, result.Exports); diff != "" {
		w.Errorf("exports: -want +got:\n%s", diff)
	}
	var got []string
	for _, text := range result.Waiting {
		got = append(got, strings.ReplaceAll(text, w.Namespace, "NS"))
	}
	if diff := cmp.Diff(waiting, got); diff != "" {
		w.Errorf("waiting: -want +got:\n%s", diff)
	}
}

// mustFail expects temporary errors, without the values of objects.
func (w *world) mustFail(err error, parts ...string) {
	w.Helper()
	if err == nil || len(sdk.Codes(err)) != 0 || strings.Contains(err.Error(), "hunter2") {
		w.Fatalf("expected temporary errors without values, but found %v", err)
	}
	for _, part := range parts {
		if !strings.Contains(strings.ReplaceAll(err.Error(), w.Namespace, "NS"), part) {
			w.Errorf("expected %q in %v", part, err)
		}
	}
}

const (
	configMap, namespace, thing = "v1 ConfigMap", "v1 Namespace", "example.org/v1 Thing"
	account                     = "v1 ServiceAccount"
)

// TestRead: each object is read once unless it is at hand. The namespace is ignored for a cluster-scoped kind.
// Rule (manifest.md#exports): A `jsonPath` may have braces, and dots in `key` create nested maps.
func TestRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atHand := w.configMap("at-hand", fields{"foo": "bar"})
	w.configMap("other", fields{"x": "y", "z": "1"})
	result, err := w.read(w.parse(
		w.of("a.b.c", ".data.foo", configMap, "at-hand"), w.of("a.b.d", "{.data}", configMap, "other"),
		w.of("a.e", "data.x", configMap, "other"), w.of("ns", ".metadata.name", namespace, w.Namespace),
	), atHand)
	w.mustRead(result, err, fields{
		"a": fields{"b": fields{"c": "bar", "d": fields{"x": "y", "z": "1"}}, "e": "y"}, "ns": w.Namespace,
	})
	own := "GET /api/v1/namespaces/" + w.Namespace
	if got := w.Requests.Take(); !slices.Equal(got, []string{own + "/configmaps/other", own}) {
		t.Errorf("expected two requests, but found %v", got)
	}
}

// TestVersions: an object at hand does not stand for one in another version of its kind, which has another shape.
func TestVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource := plugintest.Resource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}
	const kind = "HorizontalPodAutoscaler"
	atHand := w.create(resource, kind, "a", fields{"spec": fields{
		"maxReplicas": int64(3), "targetCPUUtilizationPercentage": int64(70),
		"scaleTargetRef": fields{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
	}})
	result, err := w.read(w.parse(
		w.of("v1", ".spec.targetCPUUtilizationPercentage", "autoscaling/v1 "+kind, "a"),
		w.of("v2", ".spec.metrics[0].resource.target.averageUtilization", "autoscaling/v2 "+kind, "a"),
	), atHand)
	w.mustRead(result, err, fields{"v1": int64(70), "v2": int64(70)})
}

// Rule (manifest.md#exports): The job waits for missing values.
func TestWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atHand, other := w.configMap("at-hand", nil), w.configMap("other", nil)
	fallback := w.of("fallback", ".data", configMap, "none")
	fallback.FromResource.Namespace = ""
	result, err := w.read(w.parse(
		w.of("a", ".data.foo", configMap, "at-hand"), w.of("b.c", ".data.foo", configMap, "other"),
		w.of("b.d", ".data.foo", configMap, "none"), w.of("b.e", ".data.foo", thing, "none"),
		w.of("here", ".metadata.name", configMap, "other"), w.of("namespace", ".data", namespace, "none"),
		at(w.of("there", ".data.foo", configMap, "none"), "other"), fallback,
	), atHand)
	w.mustRead(result, err, fields{"here": "other"},
		`export "a": ConfigMap NS/at-hand has no value at .data.foo yet`,
		`export "b.c": ConfigMap NS/other has no value at .data.foo yet`,
		`export "b.d": ConfigMap NS/none does not exist yet`,
		`export "b.e": Thing NS/none: the target does not serve this kind in example.org/v1 yet`,
		`export "namespace": Namespace none does not exist yet`,
		`export "there": ConfigMap NS/none on Target "other" does not exist yet`,
		`export "fallback": ConfigMap default/none does not exist yet`)
	var seen []string
	for _, s := range result.Seen {
		seen = append(seen, s.Key.Name)
	}
	if !slices.Equal(seen, []string{"other", "none", "none", "none", "none"}) ||
		result.Seen[0].ResourceVersion != other.GetResourceVersion() ||
		result.Seen[1].ResourceVersion != "" || result.Seen[2].Key.Namespace != "" ||
		result.Seen[3].Client != w.targets["other"] {
		t.Errorf("expected to watch the objects with missing values not at hand, but found %v", result.Seen)
	}
}

// Rule (manifest.md#exports): With `fromObjectRef` the value is read from the object of a reference.
func TestReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.account("a", "token")
	ref := w.parse(through(w.of("token", "{.secrets[0]}", account, "a"), "Secret", ".data.t"))
	result, err := w.read(ref)
	w.mustRead(result, err, nil, `export "token": Secret NS/token does not exist yet`)
	if len(result.Seen) != 2 {
		t.Errorf("expected to watch both objects, but found %v", result.Seen)
	}
	w.create(plugintest.Secrets, "Secret", "token", fields{"stringData": fields{"other": "x"}})
	result, err = w.read(ref)
	w.mustRead(result, err, nil, `export "token": Secret NS/token has no value at .data.t yet`)
	w.Patch(plugintest.Secrets, "token", `{"stringData":{"t":"secret"}}`)
	result, err = w.read(ref)
	w.mustRead(result, err, fields{"token": "c2VjcmV0"})
}

// TestReferenceOfClusterScopedObject: it has no namespace for the other object, but a reference may have one.
func TestReferenceOfClusterScopedObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.account("b", "x")
	atHand := &unstructured.Unstructured{Object: fields{
		"apiVersion": "v1", "kind": "Namespace", "metadata": fields{"name": "a"},
		"given": fields{"name": "b", "namespace": w.Namespace}, "default": fields{"name": "c"},
	}}
	const name = ".secrets[0].name"
	result, err := w.read(w.parse(
		through(w.of("given", ".given", namespace, "a"), "ServiceAccount", name),
		through(w.of("default", ".default", namespace, "a"), "ServiceAccount", name),
		through(w.of("clusterScoped", ".default", namespace, "a"), "Namespace", ".metadata.name"),
	), atHand)
	w.mustRead(result, err, fields{"given": "x"},
		`export "default": ServiceAccount default/c does not exist yet`,
		`export "clusterScoped": Namespace c does not exist yet`)
}

// Rule (SECURITY.md#secrets): Errors of exports show no values.
func TestWhatIsNoReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := &unstructured.Unstructured{Object: fields{
		"apiVersion": "example.org/v1", "kind": "Thing", "metadata": fields{"name": "a", "namespace": w.Namespace},
		"text": "hunter2", "list": []any{fields{"name": "hunter2"}, fields{"name": "b"}},
		"number": fields{"name": int64(7)}, "bool": fields{"name": "hunter2", "namespace": true},
		"empty": fields{}, "null": fields{"name": nil}, "nameless": fields{"name": ""},
		"path": fields{"name": "../../secrets"},
	}}
	var exports []managedresource.Export
	for _, key := range []string{"text", "list", "number", "bool", "path", "empty", "null", "nameless", "none"} {
		exports = append(exports, through(w.of(key, "."+key, thing, "a"), "Secret", ".data.a"))
	}
	result, err := w.read(w.parse(exports...), o)
	w.mustRead(result, nil, nil,
		`export "empty": Thing NS/a at .empty: there is no name of an object of kind Secret yet`,
		`export "null": Thing NS/a at .null: there is no name of an object of kind Secret yet`,
		`export "nameless": Thing NS/a at .nameless: there is no name of an object of kind Secret yet`,
		`export "none": Thing NS/a has no value at .none yet`)
	w.mustFail(err,
		`export "text": Thing NS/a at .text: expected a map with the name of an object of kind Secret, but found a string`,
		`export "list": Thing NS/a at .list: expected a map with the name of an object of kind Secret, but found a list`,
		`export "number": Thing NS/a at .number: expected the name of an object of kind Secret, but found a number`,
		`export "bool": Thing NS/a at .bool: expected the namespace of an object of kind Secret, but found a boolean`,
		`export "path": read Secret NS/../../secrets: invalid resource name`)
	if known, ok := errors.AsType[*sdk.Error](err); !ok || known.Reason != export.ReasonInvalid {
		t.Errorf("expected the reason %s, but found %v", export.ReasonInvalid, known)
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request without a name, but found %v", got)
	}
}

func TestErrorsHideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configMap("a", fields{"foo": "bar", "big": strings.Repeat("x", 600_000)})
	nobody, _ := w.ServiceAccount("nobody")
	w.targets["theirs"] = w.Client(nobody)
	foo := func(key string) managedresource.Export { return w.of(key, ".data.foo", configMap, "a") }
	result, err := w.read(w.parse(
		at(foo("forbidden"), "theirs"), at(foo("missing"), "elsewhere"), foo("good"),
		w.of("large", ".data['big','big']", configMap, "a"),
	))
	w.mustRead(result, nil, fields{"good": "bar"})
	w.mustFail(err,
		`export "forbidden": read ConfigMap NS/a on Target "theirs": configmaps "a" is forbidden`,
		`export "missing": no such Target`,
		`export "large": ConfigMap NS/a at .data['big','big']: the path leads to too much`)
	if !errors.Is(err, errUnknownTarget) {
		t.Errorf("expected the error of the lookup, but found %v", err)
	}
}

// TestOtherTarget: objects at hand are of the own Target and stand for none of another one.
// Rule (manifest.md#exports): `targetName` has an export read from another Target.
func TestOtherTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atHand := w.configMap("a", fields{"foo": "old"})
	w.Patch(plugintest.ConfigMaps, "a", `{"data":{"foo":"new"}}`)
	w.account("a", "token")
	w.create(plugintest.Secrets, "Secret", "token", fields{"stringData": fields{"t": "secret"}})
	result, err := w.read(w.parse(
		w.of("here", ".data.foo", configMap, "a"), at(w.of("there", ".data.foo", configMap, "a"), "other"),
		at(through(w.of("token", ".secrets[0]", account, "a"), "Secret", ".data.t"), "other"),
	), atHand)
	w.mustRead(result, err, fields{"here": "old", "there": "new", "token": "c2VjcmV0"})
}

func TestEndOfContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	values := w.parse(w.of("a", ".data", configMap, "a"))
	if _, err := export.Read(ctx, w.targets[""], values, nil, w.lookup, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, but found %v", err)
	}
}
