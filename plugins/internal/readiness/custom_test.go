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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

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
	if client, ok := w.targets[name]; ok {
		return client, nil
	}
	return nil, fmt.Errorf("target %q: %w", name, errUnknownTarget)
}

// configMap creates one with a value of foo, if any, and labels.
func (w *world) configMap(name, foo string, labels map[string]any) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{Object: w.ConfigMap(name, map[string]any{"foo": foo})}
	if foo == "" {
		delete(o.Object, "data")
	}
	o.Object["metadata"] = map[string]any{"name": name, "labels": labels}
	return w.Create(plugintest.ConfigMaps, o.Object)
}

// run makes the checks of a configuration about the given objects.
func (w *world) run(document string, objects ...*unstructured.Unstructured) (readiness.Verdict, error) {
	w.Helper()
	checks := parse(w.TB, strings.ReplaceAll(document, "NS", w.Namespace))
	return checks.Run(w.Context(), asWanted(objects...), nil, w.lookup, time.Now())
}

func (w *world) mustWait(v readiness.Verdict, err error, want ...string) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	var got []string
	for _, text := range v.Waiting {
		got = append(got, strings.ReplaceAll(text, w.Namespace, "NS"))
	}
	if diff := cmp.Diff(want, got); diff != "" || len(v.Failed) > 0 {
		w.Errorf("failed: %v; waiting: -want +got:\n%s", v.Failed, diff)
	}
}

// fooIsBar is a requirement.
var fooIsBar = requires(".data.foo", "=", `"bar"`)

func TestCustomChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := w.Create(plugintest.Namespaces, map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": w.Namespace + "-other"},
	}).GetName()
	labels := func(tier string) map[string]any { return map[string]any{"app": w.Namespace, "tier": tier} }
	w.configMap("good", "bar", labels("x"))
	w.configMap("bad", "baz", nil)
	w.configMap("empty", "", nil)
	stale := w.configMap("stale", "", nil)
	w.Patch(plugintest.ConfigMaps, "stale", `{"data":{"foo":"bar"}}`)
	(&world{World: w.At(elsewhere)}).configMap("bad", "baz", labels("y"))
	const configMap, thing = "v1 ConfigMap", "example.org/v1 Thing"
	const other, noValue = `"targetName":"other",`, `expected .data.foo = "bar", but there is no value yet`
	for name, c := range map[string]struct {
		selector string
		watched  int
		waiting  []string
	}{
		// Rule (manifest.md#readiness): A custom check by `resourceSelector` looks at the named objects.
		"references": {objects(configMap, "good", "bad", "empty", "none"), 3, []string{
			`ConfigMap NS/bad: expected .data.foo = "bar", but found "baz"`, `ConfigMap NS/empty: ` + noValue,
			`ConfigMap NS/none does not exist yet`,
		}},
		"the caller watches its objects": {objects(configMap, "stale"), 0, []string{`ConfigMap NS/stale: ` + noValue}},
		// Rule (manifest.md#readiness): `targetName` has a check look at another Target.
		"another Target": {other + objects(configMap, "stale", "none"), 1, []string{
			`ConfigMap NS/none on Target "other" does not exist yet`,
		}},
		"labels": {labelled(configMap, `"app":"NS","tier":"x"`), 0, nil},
		// Rule (manifest.md#readiness): A custom check by labels needs at least one object, and holds for all of them.
		"labels in all namespaces": {labelled(configMap, `"app":"NS"`), 1, []string{
			`ConfigMap NS-other/bad: expected .data.foo = "bar", but found "baz"`,
		}},
		"labels of nothing": {labelled(configMap, `"app":"NS","tier":"z"`), 0, []string{
			`no object of kind ConfigMap has the labels app=NS,tier=z yet`,
		}},
		"kind that is not served": {objects(thing, "a") + "," + labelled(thing, `"a":"b"`), 0, []string{
			`Thing NS/a: the target does not serve this kind in example.org/v1 yet`,
			`Thing: the target does not serve this kind in example.org/v1 yet`,
		}},
		"disabled": {`"disabled":true,` + objects(configMap, "none"), 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{World: w.In(t), targets: w.targets}
			v, err := w.run(checks(checkOf("c", c.selector, fooIsBar)), stale)
			for i := range c.waiting {
				c.waiting[i] = `readiness check "c": ` + c.waiting[i]
			}
			w.mustWait(v, err, c.waiting...)
			if len(v.Seen) != c.watched {
				t.Errorf("expected %d objects to watch, but found %v", c.watched, v.Seen)
			}
			for _, s := range v.Seen {
				version := ""
				if live := w.At(s.Key.Namespace).Get(s.Mapping.Resource, s.Key.Name); live != nil {
					version = live.GetResourceVersion()
				}
				isOther := strings.HasPrefix(c.selector, other)
				if s.ResourceVersion != version || (s.Client == w.targets["other"]) != isOther {
					t.Errorf("expected the version %q of the object, but found %v", version, s)
				}
			}
		})
	}
}

func TestEachObjectIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	atHand := w.configMap("at-hand", "", nil)
	w.configMap("other", "", nil)
	check := checkOf("c", objects("v1 ConfigMap", "at-hand", "other"), fooIsBar)
	v, err := w.run(checks(check, check), atHand)
	if err != nil || len(v.Waiting) != 4 {
		t.Fatalf("expected that both checks wait for both objects, but found %v and %v", v.Waiting, err)
	}
	got, want := w.Requests.Take(), []string{"GET /api/v1/namespaces/" + w.Namespace + "/configmaps/other"}
	if !slices.Equal(got, want) {
		t.Errorf("expected the requests %v, but found %v", want, got)
	}
}

func TestLabelSelectorReadsAllPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const more = 501
	for i := range more {
		w.configMap(fmt.Sprintf("c%d", i), "", map[string]any{"app": w.Namespace})
	}
	v, err := w.run(checks(checkOf("c", labelled("v1 ConfigMap", `"app":"NS"`), fooIsBar)))
	if got := w.Requests.Take(); err != nil || len(v.Waiting) != more || len(got) != 2 {
		t.Errorf("expected %d objects with two requests, but found %d with %v and %v", more, len(v.Waiting), got, err)
	}
}

func TestErrorsHideNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.configMap("a", "", nil)
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

// TestDoneAndGone: what is done and gone meets the checks of its own Target that name or select it, and no others.
func TestDoneAndGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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

// Rule (SECURITY.md#secrets): Readiness checks show no values of Secrets.
func TestValuesOfSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(plugintest.Secrets, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"},
		"stringData": map[string]any{"password": "hunter2"},
	})
	v, err := w.run(checks(checkOf("c", objects("v1 Secret", "a"), requires(".data.password", "=", `"cGFzcw=="`),
		requires(".data.password", "!"), requires(".data.password", "in", `"cGFzcw=="`))))
	const check = `readiness check "c": Secret NS/a: expected .data.password `
	w.mustWait(v, err, check+"= a hidden value, but found a hidden value", check+"not to exist, but found a hidden value",
		check+"in a hidden value, but found a hidden value")
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

// Rule (manifest.md#readiness): A claim without a consumer is ready if its storage class waits for the first one.
func TestClaimForFirstConsumer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	classes := plugintest.Resource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}
	const unbound = "PersistentVolumeClaim n/a: it is not bound yet"
	for mode, want := range map[string][]string{
		"WaitForFirstConsumer": nil, "Immediate": {unbound},
		"missing": {unbound + "; StorageClass missing does not exist yet"},
	} {
		name := mode
		if mode != "missing" {
			name = w.Namespace + "-" + strings.ToLower(mode)
			class := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": map[string]any{"name": name},
				"provisioner": "example.org/none", "volumeBindingMode": mode,
			}}
			if _, err := w.Admin.Resource(classes).Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			w.DeleteAfter(classes, name)
		}
		v, err := w.run(`{}`, newObject("v1 PersistentVolumeClaim", map[string]any{
			"spec": map[string]any{"storageClassName": name}, "status": map[string]any{"phase": "Pending"},
		}))
		w.mustWait(v, err, want...)
	}
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
