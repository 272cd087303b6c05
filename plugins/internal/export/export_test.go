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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

type fields = map[string]any

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

var (
	configMaps, secrets, accounts = plugintest.ConfigMaps, plugintest.Secrets, plugintest.ServiceAccounts

	bindings = schema.GroupVersionResource{
		Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings",
	}
)

// world is what one test plays in: Targets that lead to its API server.
type world struct {
	*plugintest.World

	targets map[string]*target.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: plugintest.New(t)}
	w.targets = map[string]*target.Client{"": w.Client(plugintest.Config())}
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
func (w *world) create(
	resource schema.GroupVersionResource, kind, name string, content fields,
) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{Object: content}
	if o.Object == nil {
		o.Object = fields{}
	}
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(kind)
	o.SetName(name)
	return w.Create(resource, o.Object)
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

// of is an export of a value of an object in the namespace, unless the kind is cluster-scoped.
func (w *world) of(key, path, apiVersion, kind, name string) managedresource.Export {
	return managedresource.Export{Key: key, JSONPath: path, FromResource: &managedresource.TypedObjectReference{
		APIVersion: apiVersion, Kind: kind, Name: name, Namespace: w.Namespace,
	}}
}

// through makes an export one of an object that is referred to.
func through(e managedresource.Export, kind, path string) managedresource.Export {
	e.FromObjectReference = &managedresource.FromObjectReference{APIVersion: "v1", Kind: kind, JSONPath: path}
	return e
}

// at makes an export one of another Target.
func at(e managedresource.Export, target string) managedresource.Export {
	e.TargetName = &target
	return e
}

// mustRead compares exports and what is waited for, in which NS stands for the namespace.
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

// Rule (manifest.md#exports): A `jsonPath` may have braces, and dots in `key` create nested maps.
func TestRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atHand := w.create(configMaps, "ConfigMap", "at-hand", fields{"data": fields{"foo": "bar"}})
	w.create(configMaps, "ConfigMap", "other", fields{"data": fields{"x": "y", "z": "1"}})
	// a namespace is ignored for a kind that has none
	cluster := w.of("ns", ".metadata.name", "v1", "Namespace", w.Namespace)
	result, err := w.read(w.parse(
		w.of("a.b.c", ".data.foo", "v1", "ConfigMap", "at-hand"),
		w.of("a.b.d", "{.data}", "v1", "ConfigMap", "other"),
		w.of("a.e", "data.x", "v1", "ConfigMap", "other"),
		cluster,
	), atHand)
	w.mustRead(result, err, fields{
		"a": fields{"b": fields{"c": "bar", "d": fields{"x": "y", "z": "1"}}, "e": "y"}, "ns": w.Namespace,
	})
	own := "GET /api/v1/namespaces/" + w.Namespace
	if got := w.Requests.Take(); !slices.Equal(got, []string{own + "/configmaps/other", own}) {
		t.Errorf("expected that each object is read once unless it is at hand, but found %v", got)
	}
}

// TestVersions: an object at hand does not stand for one in another version of its kind, which has another shape.
func TestVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	resource := schema.GroupVersionResource{Group: "autoscaling", Version: "v1", Resource: "horizontalpodautoscalers"}
	atHand := w.create(resource, "HorizontalPodAutoscaler", "a", fields{"spec": fields{
		"maxReplicas": int64(3), "targetCPUUtilizationPercentage": int64(70),
		"scaleTargetRef": fields{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
	}})
	const kind = "HorizontalPodAutoscaler"
	result, err := w.read(w.parse(
		w.of("v1", ".spec.targetCPUUtilizationPercentage", "autoscaling/v1", kind, "a"),
		w.of("v2", ".spec.metrics[0].resource.target.averageUtilization", "autoscaling/v2", kind, "a"),
	), atHand)
	w.mustRead(result, err, fields{"v1": int64(70), "v2": int64(70)})
}

// Rule (manifest.md#exports): The job waits for missing values.
func TestWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atHand := w.create(configMaps, "ConfigMap", "at-hand", nil)
	other := w.create(configMaps, "ConfigMap", "other", nil)
	w.targets["other"] = w.Client(plugintest.Config())
	fallback := w.of("fallback", ".data", "v1", "ConfigMap", "none")
	fallback.FromResource.Namespace = ""
	values := w.parse(
		w.of("a", ".data.foo", "v1", "ConfigMap", "at-hand"),
		w.of("b.c", ".data.foo", "v1", "ConfigMap", "other"),
		w.of("b.d", ".data.foo", "v1", "ConfigMap", "none"),
		w.of("b.e", ".data.foo", "example.org/v1", "Thing", "none"),
		w.of("here", ".metadata.name", "v1", "ConfigMap", "other"),
		w.of("namespace", ".data", "v1", "Namespace", "none"),
		at(w.of("there", ".data.foo", "v1", "ConfigMap", "none"), "other"),
		fallback,
	)
	result, err := w.read(values, atHand)
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
		t.Errorf("expected to watch what is waited for and not at hand, but found %v", result.Seen)
	}
}

// account returns the content of a ServiceAccount, which refers to a Secret in a list.
func account(name string) fields { return fields{"secrets": []any{fields{"name": name}}} }

// Rule (manifest.md#exports): With `fromObjectRef` the value is read from the object of a reference.
func TestReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(accounts, "ServiceAccount", "a", account("token"))
	ref := through(w.of("token", "{.secrets[0]}", "v1", "ServiceAccount", "a"), "Secret", ".data.t")
	result, err := w.read(w.parse(ref))
	w.mustRead(result, err, nil, `export "token": Secret NS/token does not exist yet`)
	if len(result.Seen) != 2 {
		t.Errorf("expected to watch both objects, but found %v", result.Seen)
	}
	w.create(secrets, "Secret", "token", fields{"stringData": fields{"other": "x"}})
	result, err = w.read(w.parse(ref))
	w.mustRead(result, err, nil, `export "token": Secret NS/token has no value at .data.t yet`)
	w.Patch(secrets, "token", `{"stringData":{"t":"secret"}}`)
	result, err = w.read(w.parse(ref))
	w.mustRead(result, err, fields{"token": "c2VjcmV0"})
}

func TestReferenceWithNamespace(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	other.create(accounts, "ServiceAccount", "b", account("x"))
	binding := &unstructured.Unstructured{Object: fields{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
		"metadata": fields{"generateName": "test-"},
		"roleRef":  fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none"},
		"subjects": []any{
			fields{"kind": "ServiceAccount", "name": "b", "namespace": other.Namespace},
			fields{"kind": "User", "name": "c"},
		},
	}}
	created, err := w.Admin.Resource(bindings).Create(t.Context(), binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.DeleteAfter(bindings, created.GetName())
	from := func(key, path string) managedresource.Export {
		return through(
			w.of(key, path, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", created.GetName()), "ServiceAccount",
			".secrets[0].name",
		)
	}
	result, err := w.read(w.parse(
		from("given", ".subjects[0]"), from("default", ".subjects[1]"),
		through(
			w.of("clusterScoped", ".roleRef", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", created.GetName()),
			"Namespace", ".metadata.name",
		),
	))
	w.mustRead(result, err, fields{"given": "x"},
		`export "default": ServiceAccount default/c does not exist yet`,
		`export "clusterScoped": Namespace none does not exist yet`)
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
	of := func(path string) managedresource.Export {
		return through(w.of(path, "."+path, "example.org/v1", "Thing", "a"), "Secret", ".data.a")
	}
	result, err := w.read(
		w.parse(
			of("text"), of("list"), of("number"), of("bool"), of("path"), of("empty"), of("null"), of("nameless"),
			of("none"),
		),
		o,
	)
	w.mustRead(result, nil, nil,
		`export "empty": Thing NS/a at .empty: there is no name of an object of kind Secret yet`,
		`export "null": Thing NS/a at .null: there is no name of an object of kind Secret yet`,
		`export "nameless": Thing NS/a at .nameless: there is no name of an object of kind Secret yet`,
		`export "none": Thing NS/a has no value at .none yet`)
	if err == nil || len(sdk.Codes(err)) != 0 || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("expected errors that are worth another try and tell no values, but found %v", err)
	}
	var known *sdk.Error
	if !errors.As(err, &known) || known.Reason != export.ReasonInvalid {
		t.Errorf("expected the reason %s, but found %v", export.ReasonInvalid, known)
	}
	for _, part := range []string{
		`export "text": Thing NS/a at .text: expected a map with the name of an object of kind Secret, but found a string`,
		`export "list": Thing NS/a at .list: expected a map with the name of an object of kind Secret, but found a list`,
		`export "number": Thing NS/a at .number: expected the name of an object of kind Secret, but found a number`,
		`export "bool": Thing NS/a at .bool: expected the namespace of an object of kind Secret, but found a boolean`,
		`export "path": read Secret NS/../../secrets: invalid resource name`,
	} {
		if !strings.Contains(strings.ReplaceAll(err.Error(), w.Namespace, "NS"), part) {
			t.Errorf("expected %q in %v", part, err)
		}
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request for what is no name, but found %v", got)
	}
}

func TestErrorsHideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMaps, "ConfigMap", "a", fields{"data": fields{"foo": "bar", "big": strings.Repeat("x", 600_000)}})
	nobody, _ := w.ServiceAccount("nobody")
	w.targets["theirs"] = w.Client(nobody)
	a := w.of("good", ".data.foo", "v1", "ConfigMap", "a")
	named := func(key string) managedresource.Export { return w.of(key, ".data.foo", "v1", "ConfigMap", "a") }
	result, err := w.read(w.parse(
		at(named("forbidden"), "theirs"), at(named("missing"), "elsewhere"), a,
		w.of("large", ".data['big','big']", "v1", "ConfigMap", "a"),
	))
	w.mustRead(result, nil, fields{"good": "bar"})
	if err == nil || !errors.Is(err, errUnknownTarget) || len(sdk.Codes(err)) != 0 {
		t.Fatalf("expected errors that are worth another try, but found %v", err)
	}
	for _, part := range []string{
		`export "forbidden": read ConfigMap NS/a on Target "theirs": configmaps "a" is forbidden`,
		`export "missing": no such Target`,
		`export "large": ConfigMap NS/a at .data['big','big']: the path leads to too much`,
	} {
		if !strings.Contains(strings.ReplaceAll(err.Error(), w.Namespace, "NS"), part) {
			t.Errorf("expected %q in %v", part, err)
		}
	}
}

// TestOtherTarget: objects at hand are of the own Target and stand for none of another one.
// Rule (manifest.md#exports): `targetName` has an export read from another Target.
func TestOtherTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atHand := w.create(configMaps, "ConfigMap", "a", fields{"data": fields{"foo": "old"}})
	w.Patch(configMaps, "a", `{"data":{"foo":"new"}}`)
	w.create(accounts, "ServiceAccount", "a", account("token"))
	w.create(secrets, "Secret", "token", fields{"stringData": fields{"t": "secret"}})
	w.targets["other"] = w.Client(plugintest.Config())
	result, err := w.read(w.parse(
		w.of("here", ".data.foo", "v1", "ConfigMap", "a"),
		at(w.of("there", ".data.foo", "v1", "ConfigMap", "a"), "other"),
		at(through(w.of("token", ".secrets[0]", "v1", "ServiceAccount", "a"), "Secret", ".data.t"), "other"),
	), atHand)
	w.mustRead(result, err, fields{"here": "old", "there": "new", "token": "c2VjcmV0"})
}

func TestEndOfContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := export.Read(
		ctx, w.targets[""], w.parse(w.of("a", ".data", "v1", "ConfigMap", "a")), nil, w.lookup, time.Now(),
	)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, but found %v", err)
	}
}
