package target

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestTarget(t *testing.T) {
	t.Parallel()
	inline := func(version, text string) *v1alpha1.Target {
		return inlineTarget(version, marshal(t, map[string]any{"kubeconfig": text}))
	}
	content := marshal(t, map[string]any{"kubeconfig": rebuilt})
	both := inline("1", sound)
	both.Spec.SecretRef = &v1alpha1.LocalSecretReference{Name: "my-secret"}
	nameless := secretTarget("1", "")
	nameless.Spec.SecretRef.Name = ""
	foreign := inlineTarget("1", "")
	foreign.Spec.Type = "acme.org/thing"
	elsewhere := inline("1", sound)
	elsewhere.Namespace = "elsewhere"
	targetless := newItem("")
	targetless.Spec.Target = &v1alpha1.ObjectReference{}
	forbiddenExec := kubeconfig("exec: {command: sh}")
	const missing = `Target "foo/my-target": there is no such Target; create it, ` +
		`or correct spec.target.name of the deploy item (a Target is read from the namespace of its item; ` +
		`spec.target.namespace "elsewhere" has no effect)`

	type want struct {
		content  string
		reason   Reason
		code     v1alpha1.ErrorCode
		err      string
		live     int64 // requests to the API server
		notFound bool
	}
	type objects = []client.Object
	passes := func(live int64) want { return want{content: content, live: live} }
	wrong := func(reason Reason, live int64, text string) want {
		return want{
			reason: reason, code: v1alpha1.ErrorConfigurationProblem, live: live, err: `Target "foo/my-target": ` + text,
		}
	}
	for name, tc := range map[string]struct {
		reason       string
		item         *v1alpha1.DeployItem
		cached, live objects
		want         want
	}{
		"no target": {reason: "An item without a target has none, which is no error.", item: newItem("")},
		"inline":    {"Inline content costs no request at all.", nil, objects{inline("1", sound)}, nil, passes(0)},
		"secret": {"The data of a secret is read live.", nil, objects{secretTarget("1", "kubeconfig"), newSecret("1", nil)},
			objects{newSecret("1", map[string]string{"kubeconfig": sound})}, passes(1)},
		"whole secret": {"Without a key the secret is the content.", nil, objects{secretTarget("1", "")},
			objects{newSecret("1", map[string]string{"kubeconfig": sound, "other": "x"})}, passes(1)},
		"nothing":          {"A target of another type may be without content.", nil, objects{foreign}, nil, want{}},
		"target only live": {"The cache may not know a new Target yet.", nil, nil, objects{inline("1", sound)}, passes(1)},
		"mended target": {"What is wrong in the cache may be mended already.",
			nil, objects{inline("1", forbiddenExec)}, objects{inline("2", sound)}, passes(1)},
		"mended secret": {"The cached metadata of a secret may be older than the secret.",
			nil, objects{secretTarget("1", "k"), newSecret("1", nil)},
			objects{secretTarget("1", "k"), newSecret("2", map[string]string{"k": sound})}, passes(1)},
		"other secret": {"The live Target may refer to another secret than the cached one, which is gone.",
			nil, objects{secretTarget("1", "k")}, objects{inline("2", sound)}, passes(2)},
		// Rule (deploy-items.md#targets): The error names a missing Target.
		"target missing": {"A missing Target is confirmed once, and the wrong namespace pointed out.",
			nil, nil, nil, want{reason: ReasonTargetNotFound, live: 1, notFound: true, err: missing}},
		// Rule (SECURITY.md#authors-of-items): A Target is read from the namespace of its item, whatever a field says.
		"target in the other namespace": {"spec.target.namespace has no effect.", nil, nil, objects{elsewhere},
			want{reason: ReasonTargetNotFound, live: 1, notFound: true, err: missing}},
		"target without name": {"An empty name would be a list request.", targetless, nil, nil, want{
			reason: ReasonTargetNotFound,
			err:    `Target "foo/": spec.target.name: is empty in the deploy item; name a Target, or remove spec.target`,
		}},
		"secret missing": {"A missing secret may still come: no code.",
			nil, objects{secretTarget("1", "k")}, objects{secretTarget("1", "k")}, want{
				reason: ReasonSecretNotFound, live: 3, notFound: true,
				err: `Target "foo/my-target": spec.secretRef.name: there is no Secret "foo/my-secret"; create it`,
			}},
		"key missing": {"The key and the secret are named, the other keys are not.",
			nil, objects{secretTarget("1", "k"), newSecret("1", nil)},
			objects{secretTarget("1", "k"), newSecret("1", map[string]string{"other": "x"})},
			wrong(ReasonSecretKeyNotFound, 3,
				`spec.secretRef.key: Secret "foo/my-secret" has no key "k"; add it, or correct the Target`)},
		"both": {"Two sources of content are ambiguous.", nil, objects{both}, objects{both},
			wrong(ReasonContentInvalid, 1, `spec: both config and secretRef are set; remove one of them`)},
		"neither": {"A cluster needs a kubeconfig.", nil, objects{inlineTarget("1", "")}, objects{inlineTarget("1", "")},
			wrong(ReasonContentInvalid, 1, `spec: neither config nor secretRef is set; `+
				`a target of type "landscaper.gardener.cloud/kubernetes-cluster" needs a kubeconfig`)},
		"secretRef without name": {"An empty name would be a list request.", nil, objects{nameless}, objects{nameless},
			wrong(ReasonContentInvalid, 1, `spec.secretRef.name: is empty; name a secret`)},
		"forbidden": {"What is forbidden live as well is reported.",
			nil, objects{inline("1", forbiddenExec)}, objects{inline("1", forbiddenExec)}, wrong(ReasonForbidden, 1,
				`users["admin"].exec: running commands is not allowed; use a token or client-certificate-data`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := tc.item
			if item == nil {
				item = newItem("my-target")
			}
			live := newStore(t, tc.live...)
			resolver := NewResolver(newCache(t, tc.cached...), live, Options{})
			resolved, err := resolver.Target(t.Context(), item)

			got := want{live: live.requests.Load(), notFound: apierrors.IsNotFound(err)}
			if resolved != nil {
				got.content = resolved.Content
			}
			var typed *Error
			if errors.As(err, &typed) {
				got.reason, got.code, got.err = typed.Reason, typed.Code(), typed.Error()
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("%s\nTarget(): %v (-want +got):\n%s", tc.reason, err, diff)
			}
		})
	}
}

// shared is a cache that was told not to copy what it hands out.
type shared struct {
	client.Reader

	target *v1alpha1.Target
}

func (s *shared) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	*object.(*v1alpha1.Target) = *s.target
	return nil
}

func TestTargetStripped(t *testing.T) {
	t.Parallel()
	target := inlineTarget("1", marshal(t, map[string]any{"kubeconfig": sound}))
	whole := marshal(t, map[string]any{"spec": map[string]any{"config": map[string]any{"kubeconfig": sound}}})
	target.Labels = map[string]string{"l": "1"}
	target.Annotations = map[string]string{
		corev1.LastAppliedConfigAnnotation: `{"spec":{"config":{"password":"t0ps3cret"}}}`, "kapp.k14s.io/original": whole,
		"kept": "a: b",
	}
	target.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	want := &v1alpha1.Target{ObjectMeta: meta("my-target", "1"), Spec: v1alpha1.TargetSpec{Type: target.Spec.Type}}
	want.Labels, want.Annotations = target.Labels, map[string]string{"kept": "a: b"}
	before := target.DeepCopy()

	resolved, err := NewResolver(&shared{target: target}, newStore(t), Options{}).Target(t.Context(), newItem("my-target"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, resolved.Target); diff != "" {
		t.Errorf("Target in the result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, target); diff != "" {
		t.Errorf("the object of the cache was changed (-want +got):\n%s", diff)
	}
}

func TestFailureOfReader(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection refused")
	data := newSecret("1", map[string]string{"k": sound})
	failing := func(s *store) *store { s.err = broken; return s }
	for name, tc := range map[string]struct {
		reason       string
		cached, live *store
	}{
		"cache": {"A cache that fails says nothing about the Target.", failing(newCache(t)), newStore(t)},
		"live":  {"What is missing in the cache is not reported unconfirmed.", newCache(t), failing(newStore(t))},
		"secret": {"A secret that cannot be read is not missing.",
			newCache(t, secretTarget("1", "k"), data), failing(newStore(t))},
		"mended": {"What is wrong in the cache is not reported unconfirmed.",
			newCache(t, inlineTarget("1", `{}`)), failing(newStore(t))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resolver := NewResolver(tc.cached, tc.live, Options{DefaultContext: true})
			_, err := resolver.Target(t.Context(), newItem("my-target"))
			var typed *Error
			if !errors.Is(err, broken) || errors.As(err, &typed) {
				t.Errorf("%s\nTarget(): want an untyped error that wraps %q, got %v", tc.reason, broken, err)
			}
			if _, err := resolver.Context(t.Context(), newItem("")); !errors.Is(err, broken) || errors.As(err, &typed) {
				t.Errorf("%s\nContext(): want an untyped error that wraps %q, got %v", tc.reason, broken, err)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	cached, live := newCache(t, secretTarget("1", "k")),
		newStore(t, secretTarget("1", "k"), newSecret("1", map[string]string{"k": sound}))
	resolver := NewResolver(cached, live, Options{})
	resolve := func(reason string, wantRequests int64) {
		t.Helper()
		before := live.requests.Load()
		if _, err := resolver.Target(t.Context(), newItem("my-target")); err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		if got := live.requests.Load() - before; got != wantRequests {
			t.Errorf("%s: want %d requests, got %d", reason, wantRequests, got)
		}
	}
	resolve("metadata not in the cache yet", 1)
	cached.put(t, newSecret("1", nil))
	resolve("remembered since the first read", 0)
	resolve("and still", 0)
	cached.put(t, secretTarget("2", "k"))
	resolve("a change of the Target does not concern the secret", 0)
	live.put(t, newSecret("2", map[string]string{"k": sound}))
	resolve("the cache does not know of the change yet", 0)
	cached.put(t, newSecret("2", nil))
	resolve("a new version is read once", 1)
	resolve("and remembered", 0)
	recreated := newSecret("2", map[string]string{"k": sound})
	recreated.UID = "another"
	live.put(t, recreated)
	cached.put(t, recreated)
	resolve("another secret of the same name and version is another secret", 1)
	live.put(t, newSecret("3", map[string]string{"k": "fresh"}))
	secret, err := resolver.Secret(t.Context(), client.ObjectKeyFromObject(recreated), true)
	if err != nil || string(secret.Data["k"]) != "fresh" {
		t.Errorf("whoever wants to be sure gets what is there, but found %v, %v", secret, err)
	}
}

// Ten problems are told, and how many more there are; a parser keeps a hundred.
func TestManyProblems(t *testing.T) {
	t.Parallel()
	text := func(kubeconfig string) string { return marshal(t, map[string]any{"kubeconfig": kubeconfig}) }
	twice := func(n int) string { return text("{" + strings.Repeat(`"a": "t0ps3cret", `, n) + `"a": ""}`) }
	for name, tc := range map[string]struct{ content, more string }{
		"ten":     {twice(10), ""},
		"keys":    {twice(500), "and 90 more]"},
		"entries": {text(kubeconfig("{}") + strings.Repeat("- {user: {exec: {command: x}}}\n", 50)), "and 90 more]"},
		"audiences": {`{"oidcConfig":{"serviceAccount":{"name":"a"},"audience":["` + strings.Repeat(`","`, 500) + `"]}}`,
			"and 90 more]"},
	} {
		broken := inlineTarget("1", tc.content)
		_, err := NewResolver(newCache(t, broken), newStore(t, broken), Options{}).Target(t.Context(), newItem("my-target"))
		if err == nil {
			t.Fatalf("%s: there is no error", name)
		}
		want := 9 // between those that are told
		if tc.more != "" {
			want = 10
		}
		if found := strings.Count(err.Error(), ", "); found != want || !strings.HasSuffix(err.Error(), tc.more) ||
			len(err.Error()) > 2000 || strings.Contains(err.Error(), "t0ps3cret") {
			t.Errorf("%s: the text of the error is %v", name, err)
		}
	}
}

func TestNamedThatIsMissing(t *testing.T) {
	t.Parallel()
	there := newStore(t, inlineTarget("1", marshal(t, map[string]any{"kubeconfig": sound})))
	if _, err := NewResolver(newCache(t), there, Options{}).Named(t.Context(), "foo", "my-target"); err != nil {
		t.Errorf("a Target that is there: %v", err)
	}
	for _, name := range []string{"nowhere", "", "a/b", "..", "a\nb", strings.Repeat("x", 254)} {
		want, requests := `: no Target can have this name; correct what names it in the deploy item`, int64(0)
		if name == "nowhere" {
			want, requests = `: there is no such Target; create it, or correct what names it in the deploy item`, 1
		}
		live := newStore(t)
		resolved, err := NewResolver(newCache(t), live, Options{}).Named(t.Context(), "foo", name)
		var problem *Error
		if resolved != nil || !errors.As(err, &problem) || problem.Reason != ReasonTargetNotFound || problem.Code() != "" ||
			err.Error() != fmt.Sprintf("Target %q", "foo/"+name)+want || live.requests.Load() != requests {
			t.Errorf("%q: found %v, %v, and %d requests", name, resolved, err, live.requests.Load())
		}
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	type objects = []client.Object
	object := func(name string) *v1alpha1.Context {
		lsContext := &v1alpha1.Context{ObjectMeta: meta(name, "1")}
		lsContext.OCMConfig = &v1alpha1.LocalObjectReference{Name: "ocm"}
		return lsContext
	}
	c, ofDefault := object("c"), object("default")
	empty := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: "foo", Name: "default"}}
	const missing = `: there is no such Context; create it, or correct spec.context of the deploy item`
	for name, tc := range map[string]struct {
		reason       string
		name         string
		optional     bool // the option DefaultContext
		cached, live objects
		want         *v1alpha1.Context
		wantErr      string
		wantLive     int64
	}{
		"named": {"spec.context is read from the cache.", "c", false, objects{c}, nil, c, "", 0},
		// Rule (host-configuration.md#credentials-of-contexts): An item without `spec.context` uses the Context
		// `default`.
		"default": {"An empty name is the default.",
			"", false, objects{ofDefault}, nil, ofDefault, "", 0},
		"only live": {"The cache may lag.", "c", false, nil, objects{c}, c, "", 1},
		"not missing": {"A default that exists is used.",
			"", true, nil, objects{ofDefault}, ofDefault, "", 1},
		// Rule (host-configuration.md#credentials-of-contexts): The error names a missing Context.
		"missing": {"A missing Context is named.", "c", false, nil, nil, nil, `"foo/c"`, 1},
		"default missing": {"A default is missing like any other.",
			"", false, nil, nil, nil, `"foo/default"`, 1},
		"other missing": {"The option stands in for no other Context.",
			"c", true, nil, nil, nil, `"foo/c"`, 1},
		"default allowed to be missing": {"The option stands in for the default.", "", true, nil, nil, empty, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := newItem("")
			item.Spec.Context = tc.name
			live := newStore(t, tc.live...)
			got, err := NewResolver(newCache(t, tc.cached...), live, Options{DefaultContext: tc.optional}).
				Context(t.Context(), item)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nContext() (-want +got):\n%s", tc.reason, diff)
			}
			if live.requests.Load() != tc.wantLive {
				t.Errorf("%s\nContext(): want %d live requests, got %d", tc.reason, tc.wantLive, live.requests.Load())
			}
			if tc.wantErr == "" && err == nil {
				return
			}
			var typed *Error
			if !errors.As(err, &typed) || typed.Error() != "Context "+tc.wantErr+missing ||
				typed.Reason != ReasonContextNotFound || typed.Code() != "" {
				t.Errorf("%s\nContext(): want %q, got %v", tc.reason, tc.wantErr, err)
			}
		})
	}
}

// TestBeingDeleted: where a finalizer keeps what older items use, a newer item finds it missing, and an older one, or
// any where nothing is kept, does not.
func TestBeingDeleted(t *testing.T) {
	t.Parallel()
	noon := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	deleted := metav1.ObjectMeta{
		Namespace: "foo", Name: "my-target", DeletionTimestamp: &noon, Finalizers: []string{"test.pergola.dev/kept"},
	}
	target := inlineTarget("1", marshal(t, map[string]any{"kubeconfig": sound}))
	target.ObjectMeta = deleted
	store := newStore(t, target, &v1alpha1.Context{ObjectMeta: deleted})
	for name, tc := range map[string]struct {
		age     time.Duration // at the deletion
		keeps   bool
		missing bool
	}{
		"older":              {age: time.Second, keeps: true},
		"of the same second": {keeps: true},
		// Rule (deploy-items.md#deleting): An item does not use its Target if the Target was deleted before the item
		// was created.
		"newer":                        {age: -time.Second, keeps: true, missing: true},
		"newer, where nothing is kept": {age: -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resolver := NewResolver(store, store, Options{Keeps: tc.keeps})
			item := newItem("my-target")
			item.Spec.Context, item.CreationTimestamp = "my-target", metav1.NewTime(noon.Add(-tc.age))
			_, targetErr := resolver.Target(t.Context(), item)
			_, contextErr := resolver.Context(t.Context(), item)
			for reason, err := range map[Reason]error{ReasonTargetNotFound: targetErr, ReasonContextNotFound: contextErr} {
				found := (*Error)(nil)
				if errors.As(err, &found) && (found.Reason != reason || !strings.Contains(found.Error(), beingDeleted)) ||
					(err != nil) != tc.missing {
					t.Errorf("%s: found %v", reason, err)
				}
			}
		})
	}
}
