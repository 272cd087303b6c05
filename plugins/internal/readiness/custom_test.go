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
func ofConfigMaps(requirement string, names ...string) string {
	return checks(checkOf("c", objects("v1 ConfigMap", names...), requirement))
}

// fooIsBar is a requirement.
var fooIsBar = requires(".data.foo", "=", `"bar"`)

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
		if s.Client != w.targets[""] || s.Mapping.Resource.Resource != "configmaps" ||
			(s.Key.Name == "none") != (s.ResourceVersion == "") {
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
	check := checkOf("c", objects("v1 ConfigMap", "at-hand", "other"), fooIsBar)
	v, err := w.run(checks(check, check), atHand)
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
	document := checks(checkOf("c", labelled("v1 ConfigMap", `"app":"NS","tier":"x"`), fooIsBar))
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
	w.mustWait(v, err,
		`readiness check "c": ConfigMap `+other.Namespace+`/bad: expected .data.foo = "bar", but found "baz"`)
	bad := object.Key{Kind: "ConfigMap", Namespace: other.Namespace, Name: "bad"}
	if len(v.Seen) != 1 || v.Seen[0].Key != bad || v.Seen[0].ResourceVersion == "" {
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
	v, err := w.run(checks(checkOf("c", labelled("v1 ConfigMap", `"app":"NS"`), fooIsBar)))
	if got := w.Requests.Take(); err != nil || len(v.Waiting) != more || len(got) != 2 {
		t.Errorf("expected %d objects with two requests, but found %d with %v and %v", more, len(v.Waiting), got, err)
	}
}

func TestUnservedKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const kind = "example.org/v1 Thing"
	v, err := w.run(checks(checkOf("c", objects(kind, "a")+","+labelled(kind, `"a":"b"`), fooIsBar)))
	w.mustWait(v, err,
		`readiness check "c": Thing NS/a: the target does not serve this kind in example.org/v1 yet`,
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
		return checkOf(name, fmt.Sprintf(`"targetName":%q,`, target)+objects("v1 ConfigMap", "a"), fooIsBar)
	}
	v, err := w.run(checks(check("forbidden", "theirs"), check("missing", "elsewhere"), check("own", ""),
		checkOf("both", objects("v1 ConfigMap", "../x", "a"), fooIsBar),
		checkOf("list", `"targetName":"theirs",`+labelled("v1 ConfigMap", `"a":"b"`), fooIsBar)))
	w.mustWait(v, nil,
		`readiness check "own": ConfigMap NS/a: expected .data.foo = "bar", but there is no value yet`,
		`readiness check "both": ConfigMap NS/a: expected .data.foo = "bar", but there is no value yet`)
	if err == nil || !errors.Is(err, errUnknownTarget) || len(sdk.Codes(err)) != 0 {
		t.Fatalf("expected errors that are worth another try, but found %v", err)
	}
	for _, part := range []string{
		`readiness check "forbidden": read ConfigMap NS/a on Target "theirs": configmaps "a" is forbidden`,
		`readiness check "missing": target "elsewhere"`,
		`readiness check "both": read ConfigMap NS/../x: invalid resource name`,
		`readiness check "list": list objects of kind ConfigMap in all namespaces: configmaps is forbidden`,
	} {
		if !strings.Contains(strings.ReplaceAll(err.Error(), w.Namespace, "NS"), part) {
			t.Errorf("expected %q in %v", part, err)
		}
	}
	if _, err = w.run(checks(check("unknown", "unknown"))); len(sdk.Codes(err)) != 1 {
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
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "a"},
	})
	document := func(name string) string {
		return checks(checkOf("c", `"targetName":"other",`+objects("v1 ConfigMap", name), fooIsBar))
	}
	v, err := w.run(document("a"), stale)
	w.mustWait(v, err) // an object at hand is of the own Target, so it does not count
	v, err = w.run(document("b"))
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
	done := newObject("v1 ConfigMap", map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": w.Namespace}},
	})
	done.SetNamespace(w.Namespace)
	const none = `readiness check "c": no object of kind %s has the labels app=NS yet`
	for selector, want := range map[string]string{
		objects("v1 ConfigMap", "a"): "",
		objects("v1 ConfigMap", "b"): `readiness check "c": ConfigMap NS/b does not exist yet`,

		labelled("v1 ConfigMap", `"app":"NS"`): "",
		labelled("v1 Secret", `"app":"NS"`):    fmt.Sprintf(none, "Secret"),

		`"targetName":"other",` + labelled("v1 ConfigMap", `"app":"NS"`): fmt.Sprintf(none, "ConfigMap"),
	} {
		document := strings.ReplaceAll(checks(checkOf("c", selector, fooIsBar)), "NS", w.Namespace)
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
	v, err := w.run(checks(checkOf("c", objects("v1 Secret", "a"), requires(".data.password", "=", `"cGFzcw=="`),
		requires(".data.password", "!"), requires(".data.password", "in", `"cGFzcw=="`))))
	w.mustWait(v, err,
		`readiness check "c": Secret NS/a: expected .data.password = a hidden value, but found a hidden value`,
		`readiness check "c": Secret NS/a: expected .data.password not to exist, but found a hidden value`,
		`readiness check "c": Secret NS/a: expected .data.password in a hidden value, but found a hidden value`)
}

func TestEndOfContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := newObject("v1 ConfigMap", nil)
	if _, err := parse(t, `{}`).Run(ctx, asWanted(o), nil, noTarget, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, but found %v", err)
	}
}

// TestClaimForFirstConsumer: a claim without a consumer is ready if its class waits for one.
// Rule (manifest.md#readiness): A claim without a consumer is ready if its storage class waits for the first one.
func TestClaimForFirstConsumer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for mode, want := range map[storagev1.VolumeBindingMode][]string{
		storagev1.VolumeBindingWaitForFirstConsumer: nil,
		storagev1.VolumeBindingImmediate:            {"PersistentVolumeClaim n/a: it is not bound yet"},
	} {
		class, err := w.admin.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{GenerateName: "test-"},
			Provisioner: "example.org/none", VolumeBindingMode: &mode,
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.DeleteAfter(storagev1.SchemeGroupVersion.WithResource("storageclasses"), class.Name)
		claim := newObject("v1 PersistentVolumeClaim", map[string]any{
			"spec": map[string]any{"storageClassName": class.Name}, "status": map[string]any{"phase": "Pending"},
		})
		v, err := w.run(`{}`, claim)
		w.mustWait(v, err, want...)
	}
	missing := newObject("v1 PersistentVolumeClaim", map[string]any{
		"spec": map[string]any{"storageClassName": "none"}, "status": map[string]any{"phase": "Pending"},
	})
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
	o := newObject("example.org/v1 Thing", map[string]any{"spec": map[string]any{
		"n": int64(1), "list": []any{int64(1), int64(2)}, "null": nil, "some": []any{int64(1), nil},
		"long": strings.Repeat("x", 200), "big": int64(9007199254740993),
	}})
	const noValue = "but there is no value yet"
	for _, c := range []struct{ reason, requirement, want string }{
		{"numbers are worth the same", requires(".spec.n", "==", `1.0`), ""},
		{
			"integers keep their precision", requires(".spec.big", "=", `9007199254740992`),
			`.spec.big = 9007199254740992, but found 9007199254740993`,
		},
		{"all values count", requires("{.spec.list[*]}", "=", `1`), `{.spec.list[*]} = 1, but found 2`},
		{"a list is one value", requires("spec.list", "=", `[1,2]`), ""},
		{"what exists is not missing", requires(".spec.n", "!"), `.spec.n not to exist, but found 1`},
		{"what is missing is", requires(".spec.x", "!"), ""},
		{"null is missing", requires(".spec.null", "!"), ""},
		{"null does not exist", requires(".spec.null", "exists"), `.spec.null to exist, ` + noValue},
		{"one of several neither", requires(".spec.some[*]", "exists"), `.spec.some[*] to exist, ` + noValue},
		{"what is missing is not unequal", requires(".spec.x", "!=", `1`), `.spec.x != 1, ` + noValue},
		{"a value may be what is expected", requires(".spec.n", "=", `1`), ""},
		{"a number is no text", requires(".spec.n", "=", `"1"`), `.spec.n = "1", but found 1`},
		{"null is no value among others", requires(".spec.some[*]", "=", `1`), `.spec.some[*] = 1, ` + noValue},
		{"one of several is there", requires(".spec.some[*]", "!"), `.spec.some[*] not to exist, but found 1`},
		{"any value exists", requires(".spec.list[*]", "exists"), ""},
		{"another value is unequal", requires(".spec.n", "!=", `false`), ""},
		{"the same is not", requires(".spec.n", "!=", `1`), `.spec.n != 1, but found 1`},
		{"one of the values may be expected", requires(".spec.list[*]", "in", `2`, `1`), ""},
		{"all are within", requires(".spec.list[*]", "in", `2`), `.spec.list[*] in [2], but found 1`},
		{"or outside", requires(".spec.list[*]", "notin", `3`, `"1"`), ""},
		{"all of them", requires(".spec.list[*]", "notin", `2`), `.spec.list[*] notin [2], but found 2`},
		{"nor outside", requires(".spec.x", "notin", `1`), `.spec.x notin [1], ` + noValue},
		{
			"long values are cut", requires(".spec.long", "in", `"a"`, `2`),
			`.spec.long in ["a",2], but found "` + strings.Repeat("x", 99) + `…`,
		},
		{"a path that does not suit leads nowhere", requires(".spec[0]", "exists"), `.spec[0] to exist, ` + noValue},
	} {
		document := checks(checkOf("c", objects("example.org/v1 Thing", "a"), c.requirement))
		document = strings.ReplaceAll(document, "NS", "n")
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
