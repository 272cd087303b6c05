package readiness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

// world is what one test plays in: Targets that lead to its API server.
type world struct {
	*plugintest.World

	admin   kubernetes.Interface
	targets map[string]*target.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	admin, err := kubernetes.NewForConfig(plugintest.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{World: plugintest.New(t), admin: admin}
	w.targets = map[string]*target.Client{"": w.Client(plugintest.Config())}
	return w
}

var errUnknownTarget = errors.New("no such Target")

func (w *world) lookup(_ context.Context, name string) (*target.Client, error) {
	if client, ok := w.targets[name]; ok {
		return client, nil
	}
	return nil, fmt.Errorf("target %q: %w", name, errUnknownTarget)
}

func (w *world) configMap(name string, labels, data map[string]string) *unstructured.Unstructured {
	w.Helper()
	created, err := w.admin.CoreV1().ConfigMaps(w.Namespace).Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: data,
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	created.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	return toUnstructured(w.TB, created)
}

func toUnstructured(t testing.TB, o any) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// run makes the checks of a configuration, in which NS stands for the namespace, about the objects.
func (w *world) run(document string, objects ...*unstructured.Unstructured) (readiness.Verdict, error) {
	w.Helper()
	checks := parse(w.TB, strings.ReplaceAll(document, "NS", w.Namespace))
	return checks.Run(w.Context(), asWanted(objects...), nil, w.lookup, time.Now())
}

// mustWait compares what is waited for, in which NS stands for the namespace.
func (w *world) mustWait(v readiness.Verdict, err error, want ...string) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, text := range v.Waiting {
		got = append(got, strings.ReplaceAll(text, w.Namespace, "NS"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("waiting: -want +got:\n%s", diff)
	}
	if len(v.Failed) > 0 {
		w.Errorf("custom checks never fail, but found %v", v.Failed)
	}
}

// ofConfigMaps returns a configuration with one check of the ConfigMaps with these names.
func ofConfigMaps(requirements string, names ...string) string {
	var refs []string
	for _, name := range names {
		refs = append(refs, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","name":%q,"namespace":"NS"}`, name))
	}
	return fmt.Sprintf(`{"custom":[{"name":"c","resourceSelector":[%s],"requirements":[%s]}]}`, strings.Join(refs, ","), requirements)
}

const fooIsBar = `{"jsonPath":".data.foo","operator":"=","values":[{"value":"bar"}]}`

// Rule (manifest.md#readiness): A custom check by `resourceSelector` looks at the named objects.
func TestReferences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configMap("good", nil, map[string]string{"foo": "bar"})
	bad := w.configMap("bad", nil, map[string]string{"foo": "baz"})
	w.configMap("empty", nil, nil)
	v, err := w.run(ofConfigMaps(fooIsBar, "good", "bad", "empty", "none"))
	w.mustWait(v, err,
		`readiness check "c": ConfigMap NS/bad: expected .data.foo = "bar", but found "baz"`,
		`readiness check "c": ConfigMap NS/empty: expected .data.foo = "bar", but there is no value yet`,
		`readiness check "c": ConfigMap NS/none does not exist yet`)
	var seen []string
	for _, s := range v.Seen {
		if s.Client != w.targets[""] || s.Mapping.Resource.Resource != "configmaps" || (s.Key.Name == "none") != (s.ResourceVersion == "") {
			t.Errorf("expected what to watch, but found %v", s)
		}
		seen = append(seen, s.Key.Name)
	}
	if !slices.Equal(seen, []string{"bad", "empty", "none"}) || v.Seen[0].ResourceVersion != bad.GetResourceVersion() {
		t.Errorf("expected to watch what is not ready, but found %v", v.Seen)
	}
	v, err = w.run(ofConfigMaps(fooIsBar, "good"))
	w.mustWait(v, err)
}

func TestEachObjectIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atHand := w.configMap("at-hand", nil, nil)
	w.configMap("other", nil, nil)
	check := `{"name":"c","resourceSelector":[{"apiVersion":"v1","kind":"ConfigMap","name":"at-hand","namespace":"NS"},
		{"apiVersion":"v1","kind":"ConfigMap","name":"other","namespace":"NS"}],"requirements":[` + fooIsBar + `]}`
	v, err := w.run(`{"custom":[`+check+`,`+check+`]}`, atHand)
	if err != nil || len(v.Waiting) != 4 {
		t.Fatalf("expected that both checks wait for both objects, but found %v and %v", v.Waiting, err)
	}
	for _, s := range v.Seen {
		if s.Key.Name != "other" {
			t.Errorf("expected that the caller knows %v, which it has given", s)
		}
	}
	got, want := w.Requests.Take(), []string{"GET /api/v1/namespaces/" + w.Namespace + "/configmaps/other"}
	if !slices.Equal(got, want) {
		t.Errorf("expected the requests %v, but found %v", want, got)
	}
}

// Rule (manifest.md#readiness): A custom check by labels needs at least one object, and holds for all of them.
func TestLabelSelector(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	document := `{"custom":[{"name":"c","labelSelector":{"apiVersion":"v1","kind":"ConfigMap","matchLabels":{"app":"NS","tier":"x"}},"requirements":[` + fooIsBar + `]}]}`
	none := `readiness check "c": no object of kind ConfigMap has the labels app=NS,tier=x yet`
	v, err := w.run(document)
	w.mustWait(v, err, none)
	labels := map[string]string{"app": w.Namespace, "tier": "x"}
	w.configMap("unlabelled", map[string]string{"app": w.Namespace}, nil)
	v, err = w.run(document)
	w.mustWait(v, err, none)
	w.configMap("good", labels, map[string]string{"foo": "bar"})
	v, err = w.run(document)
	w.mustWait(v, err)
	other.configMap("bad", labels, map[string]string{"foo": "baz"})
	v, err = w.run(document)
	w.mustWait(v, err, `readiness check "c": ConfigMap `+other.Namespace+`/bad: expected .data.foo = "bar", but found "baz"`)
	if len(v.Seen) != 1 || v.Seen[0].Key != (object.Key{Kind: "ConfigMap", Namespace: other.Namespace, Name: "bad"}) || v.Seen[0].ResourceVersion == "" {
		t.Errorf("expected to watch the object that is not ready, but found %v", v.Seen)
	}
}

func TestLabelSelectorReadsAllPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	labels := map[string]string{"app": w.Namespace}
	const more = 501
	for i := range more {
		w.configMap(fmt.Sprintf("c%d", i), labels, nil)
	}
	v, err := w.run(`{"custom":[{"name":"c","labelSelector":{"apiVersion":"v1","kind":"ConfigMap","matchLabels":{"app":"NS"}},"requirements":[` + fooIsBar + `]}]}`)
	if got := w.Requests.Take(); err != nil || len(v.Waiting) != more || len(got) != 2 {
		t.Errorf("expected %d objects with two requests, but found %d with %v and %v", more, len(v.Waiting), got, err)
	}
}

func TestUnservedKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v, err := w.run(`{"custom":[{"name":"c","resourceSelector":[{"apiVersion":"example.org/v1","kind":"Thing","name":"a"}],
		"labelSelector":{"apiVersion":"example.org/v1","kind":"Thing","matchLabels":{"a":"b"}},"requirements":[` + fooIsBar + `]}]}`)
	w.mustWait(v, err,
		`readiness check "c": Thing a: the target does not serve this kind in example.org/v1 yet`,
		`readiness check "c": Thing: the target does not serve this kind in example.org/v1 yet`)
}

func TestErrorsHideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configMap("a", nil, nil)
	nobody, _ := w.ServiceAccount("nobody")
	w.targets["theirs"] = w.Client(nobody)
	unknown := rest.AnonymousClientConfig(plugintest.Config())
	unknown.BearerToken = "no-such-token"
	w.targets["unknown"] = w.Client(unknown)
	check := func(name, target string) string {
		return fmt.Sprintf(`{"name":%q,"targetName":%q,"resourceSelector":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","namespace":"NS"}],"requirements":[%s]}`,
			name, target, fooIsBar)
	}
	v, err := w.run(`{"custom":[` + check("forbidden", "theirs") + `,` + check("missing", "elsewhere") + `,` + check("own", "") + `,
		{"name":"both","resourceSelector":[{"apiVersion":"v1","kind":"ConfigMap","name":"../x","namespace":"NS"},
			{"apiVersion":"v1","kind":"ConfigMap","name":"a","namespace":"NS"}],"requirements":[` + fooIsBar + `]},
		{"name":"list","targetName":"theirs","labelSelector":{"apiVersion":"v1","kind":"ConfigMap","matchLabels":{"a":"b"}},"requirements":[` + fooIsBar + `]}]}`)
	w.mustWait(v, nil,
		`readiness check "own": ConfigMap NS/a: expected .data.foo = "bar", but there is no value yet`,
		`readiness check "both": ConfigMap NS/a: expected .data.foo = "bar", but there is no value yet`)
	if err == nil || !errors.Is(err, errUnknownTarget) || len(sdk.Codes(err)) != 0 {
		t.Fatalf("expected errors that are worth another try, but found %v", err)
	}
	for _, part := range []string{
		`readiness check "forbidden": read ConfigMap NS/a on Target "theirs": configmaps "a" is forbidden`, `readiness check "missing": target "elsewhere"`,
		`readiness check "both": read ConfigMap NS/../x: invalid resource name`,
		`readiness check "list": list objects of kind ConfigMap in all namespaces: configmaps is forbidden`,
	} {
		if !strings.Contains(strings.ReplaceAll(err.Error(), w.Namespace, "NS"), part) {
			t.Errorf("expected %q in %v", part, err)
		}
	}
	if _, err = w.run(`{"custom":[` + check("unknown", "unknown") + `]}`); len(sdk.Codes(err)) != 1 {
		t.Errorf("expected the code of wrong credentials, but found %v", err)
	}
}

// Rule (manifest.md#readiness): `targetName` has a check look at another Target.
func TestOtherTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configMap("a", nil, map[string]string{"foo": "bar"})
	w.targets["other"] = w.Client(plugintest.Config())
	stale := toUnstructured(t, &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "a"},
	})
	document := `{"custom":[{"name":"c","targetName":"other","resourceSelector":[{"apiVersion":"v1","kind":"ConfigMap","name":%q,"namespace":"NS"}],"requirements":[` + fooIsBar + `]}]}`
	v, err := w.run(fmt.Sprintf(document, "a"), stale)
	w.mustWait(v, err) // an object at hand is of the own Target, so it does not count
	v, err = w.run(fmt.Sprintf(document, "b"))
	w.mustWait(v, err, `readiness check "c": ConfigMap NS/b on Target "other" does not exist yet`)
	if len(v.Seen) != 1 || v.Seen[0].Client != w.targets["other"] {
		t.Errorf("expected to watch the other Target, but found %v", v.Seen)
	}
}

// TestDoneAndGone: what is done and gone meets the checks of its own Target that name or select it, and no others.
func TestDoneAndGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.targets["other"] = w.targets[""]
	done := newObject(t, "v1 ConfigMap", `{"labels":{"app":"`+w.Namespace+`"}}`, "", "")
	done.SetNamespace(w.Namespace)
	const none = `readiness check "c": no object of kind %s has the labels app=NS yet`
	for selector, want := range map[string]string{
		`"resourceSelector":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","namespace":"NS"}]`: "",
		`"resourceSelector":[{"apiVersion":"v1","kind":"ConfigMap","name":"b","namespace":"NS"}]`: `readiness check "c": ConfigMap NS/b does not exist yet`,

		`"labelSelector":{"apiVersion":"v1","kind":"ConfigMap","matchLabels":{"app":"NS"}}`:                      "",
		`"labelSelector":{"apiVersion":"v1","kind":"Secret","matchLabels":{"app":"NS"}}`:                         fmt.Sprintf(none, "Secret"),
		`"targetName":"other","labelSelector":{"apiVersion":"v1","kind":"ConfigMap","matchLabels":{"app":"NS"}}`: fmt.Sprintf(none, "ConfigMap"),
	} {
		document := strings.ReplaceAll(`{"custom":[{"name":"c",`+selector+`,"requirements":[`+fooIsBar+`]}]}`, "NS", w.Namespace)
		v, err := parse(t, document).Run(t.Context(), nil, []*unstructured.Unstructured{done}, w.lookup, time.Now())
		if got := strings.ReplaceAll(strings.Join(v.Waiting, ";"), w.Namespace, "NS"); err != nil || got != want {
			t.Errorf("%s: expected %q, but found %q and %v", selector, want, got, err)
		}
	}
}

func TestDisabledCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v, err := w.run(strings.Replace(ofConfigMaps(fooIsBar, "none"), `"name":"c"`, `"name":"c","disabled":true`, 1))
	w.mustWait(v, err)
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no requests, but found %v", got)
	}
}

// Rule (SECURITY.md#secrets): Readiness checks show no values of Secrets.
func TestValuesOfSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.admin.CoreV1().Secrets(w.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, StringData: map[string]string{"password": "hunter2"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	v, err := w.run(`{"custom":[{"name":"c","resourceSelector":[{"apiVersion":"v1","kind":"Secret","name":"a","namespace":"NS"}],"requirements":[
		{"jsonPath":".data.password","operator":"=","values":[{"value":"cGFzcw=="}]},{"jsonPath":".data.password","operator":"!"},
		{"jsonPath":".data.password","operator":"in","values":[{"value":"cGFzcw=="}]}]}]}`)
	w.mustWait(v, err,
		`readiness check "c": Secret NS/a: expected .data.password = a value that is not shown, but found a value that is not shown`,
		`readiness check "c": Secret NS/a: expected .data.password not to exist, but found a value that is not shown`,
		`readiness check "c": Secret NS/a: expected .data.password in a value that is not shown, but found a value that is not shown`)
}

func TestEndOfContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := newObject(t, "v1 ConfigMap", "", "", "")
	if _, err := parse(t, `{}`).Run(ctx, asWanted(o), nil, noTarget, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, but found %v", err)
	}
}

// TestClaimForFirstConsumer: a claim that nobody asks for yet is ready if its class waits for that.
// Rule (manifest.md#readiness): A claim without a consumer is ready if its storage class waits for the first one.
func TestClaimForFirstConsumer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for mode, want := range map[storagev1.VolumeBindingMode][]string{
		storagev1.VolumeBindingWaitForFirstConsumer: nil,
		storagev1.VolumeBindingImmediate:            {"PersistentVolumeClaim NS/a: it is not bound yet"},
	} {
		class, err := w.admin.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Provisioner: "example.org/none", VolumeBindingMode: &mode,
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.DeleteAfter(storagev1.SchemeGroupVersion.WithResource("storageclasses"), class.Name)
		claim := toUnstructured(t, &corev1.PersistentVolumeClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: w.Namespace},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class.Name,
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		})
		v, err := w.run(`{}`, claim)
		w.mustWait(v, err, want...)
	}
	missing := newObject(t, "v1 PersistentVolumeClaim", "", `{"storageClassName":"none"}`, `{"phase":"Pending"}`)
	v, err := w.run(`{}`, missing)
	w.mustWait(v, err, "PersistentVolumeClaim n/a: it is not bound yet; StorageClass none does not exist yet")
}

// TestRequirements: what each operator accepts, and what is said of what it does not. Which values are equal is in the
// tests of package jsonpath.
// Rule (manifest.md#readiness): A missing value meets only `!`.
// Rule (manifest.md#readiness): A `null` value counts as missing.
// Rule (manifest.md#readiness): All values of a path must meet a requirement.
// Rule (manifest.md#readiness): `in` accepts one of its values.
// Rule (manifest.md#readiness): `notin` accepts none of its values.
func TestRequirements(t *testing.T) {
	t.Parallel()
	o := newObject(t, "example.org/v1 Thing", "", `{"n":1,"list":[1,2],"null":null,"some":[1,null],"long":"`+strings.Repeat("x", 200)+`","big":9007199254740993}`, "")
	for _, c := range []struct{ reason, requirement, want string }{
		{"numbers are worth the same", `{"jsonPath":".spec.n","operator":"==","values":[{"value":1.0}]}`, ""},
		{"integers keep their precision", `{"jsonPath":".spec.big","operator":"=","values":[{"value":9007199254740992}]}`, `.spec.big = 9007199254740992, but found 9007199254740993`},
		{"all values count", `{"jsonPath":"{.spec.list[*]}","operator":"=","values":[{"value":1}]}`, `{.spec.list[*]} = 1, but found 2`},
		{"a list is one value", `{"jsonPath":"spec.list","operator":"=","values":[{"value":[1,2]}]}`, ""},
		{"what exists is not missing", `{"jsonPath":".spec.n","operator":"!"}`, `.spec.n not to exist, but found 1`},
		{"what is missing is", `{"jsonPath":".spec.x","operator":"!"}`, ""},
		{"null is missing", `{"jsonPath":".spec.null","operator":"!"}`, ""},
		{"null does not exist", `{"jsonPath":".spec.null","operator":"exists"}`, `.spec.null to exist, but there is no value yet`},
		{"one of several neither", `{"jsonPath":".spec.some[*]","operator":"exists"}`, `.spec.some[*] to exist, but there is no value yet`},
		{"what is missing is not unequal", `{"jsonPath":".spec.x","operator":"!=","values":[{"value":1}]}`, `.spec.x != 1, but there is no value yet`},
		{"a value may be what is expected", `{"jsonPath":".spec.n","operator":"=","values":[{"value":1}]}`, ""},
		{"a number is no text", `{"jsonPath":".spec.n","operator":"=","values":[{"value":"1"}]}`, `.spec.n = "1", but found 1`},
		{"null is no value among others", `{"jsonPath":".spec.some[*]","operator":"=","values":[{"value":1}]}`, `.spec.some[*] = 1, but there is no value yet`},
		{"one of several is there", `{"jsonPath":".spec.some[*]","operator":"!"}`, `.spec.some[*] not to exist, but found 1`},
		{"any value exists", `{"jsonPath":".spec.list[*]","operator":"exists"}`, ""},
		{"another value is unequal", `{"jsonPath":".spec.n","operator":"!=","values":[{"value":false}]}`, ""},
		{"the same is not", `{"jsonPath":".spec.n","operator":"!=","values":[{"value":1}]}`, `.spec.n != 1, but found 1`},
		{"one of the values may be expected", `{"jsonPath":".spec.list[*]","operator":"in","values":[{"value":2},{"value":1}]}`, ""},
		{"all are within", `{"jsonPath":".spec.list[*]","operator":"in","values":[{"value":2}]}`, `.spec.list[*] in [2], but found 1`},
		{"or outside", `{"jsonPath":".spec.list[*]","operator":"notin","values":[{"value":3},{"value":"1"}]}`, ""},
		{"all of them", `{"jsonPath":".spec.list[*]","operator":"notin","values":[{"value":2}]}`, `.spec.list[*] notin [2], but found 2`},
		{"nor outside", `{"jsonPath":".spec.x","operator":"notin","values":[{"value":1}]}`, `.spec.x notin [1], but there is no value yet`},
		{"long values are cut", `{"jsonPath":".spec.long","operator":"in","values":[{"value":"a"},{"value":2}]}`, `.spec.long in ["a",2], but found "` + strings.Repeat("x", 99) + `…`},
		{"a path that does not suit leads nowhere", `{"jsonPath":".spec[0]","operator":"exists"}`, `.spec[0] to exist, but there is no value yet`},
	} {
		document := `{"custom":[{"name":"c","resourceSelector":[{"apiVersion":"example.org/v1","kind":"Thing","name":"a","namespace":"n"}],"requirements":[` + c.requirement + `]}]}`
		v, err := parse(t, document).Run(t.Context(), asWanted(o), nil, noTarget, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		got := strings.TrimPrefix(strings.Join(v.Waiting, ";"), `readiness check "c": Thing n/a: expected `)
		if got != c.want {
			t.Errorf("%s: %s: expected %q, but found %q", c.reason, c.requirement, c.want, got)
		}
	}
}
