package helm3_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/test/charts"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := "/api/v1/namespaces/" + w.Namespace + "/secrets"
	configMap := "/api/v1/namespaces/" + w.Namespace + "/configmaps"
	for _, step := range []struct {
		reason string
		action helm.Action
		want   []string
		// once is how many requests for the version and the kinds there are.
		once int
	}{
		{
			reason: "a release is listed once, kinds are discovered once, and there is one look at each object that may exist",
			action: helm.Install,
			want: []string{
				"GET " + secret,
				"GET " + configMap + "/shop-plain-greeting", "GET " + configMap + "/shop-plain-settings",
				"POST " + secret, "POST " + configMap, "POST " + configMap, "PUT " + secret + "/sh.helm.release.v1.shop.v1",
			},
			once: 3,
		},
		{
			reason: "an object is read once when nothing is to be changed",
			action: helm.Upgrade,
			want: []string{
				"GET " + secret, "POST " + secret,
				"GET " + configMap + "/shop-plain-greeting", "GET " + configMap + "/shop-plain-settings",
				"PUT " + secret + "/sh.helm.release.v1.shop.v1", "PUT " + secret + "/sh.helm.release.v1.shop.v2",
			},
			once: 3,
		},
		{
			reason: "only the object itself tells whose it is",
			action: helm.Uninstall,
			want: []string{
				"GET " + secret, "PUT " + secret + "/sh.helm.release.v1.shop.v2",
				"GET " + configMap + "/shop-plain-greeting", "GET " + configMap + "/shop-plain-settings",
				"DELETE " + configMap + "/shop-plain-greeting", "DELETE " + configMap + "/shop-plain-settings",
				"DELETE " + secret + "/sh.helm.release.v1.shop.v1", "DELETE " + secret + "/sh.helm.release.v1.shop.v2",
			},
			once: 2,
		},
		{reason: "there is nothing left", action: helm.Uninstall, want: []string{"GET " + secret}},
	} {
		r := w.request(plain, nil)
		r.Action = step.action
		before := w.Requests.AskedOnce()
		w.mustRun(r)
		got, once := w.Requests.Take(), w.Requests.AskedOnce()-before
		if once != step.once {
			t.Errorf("%s: expected %d requests for the version and the kinds, but found %d", step.action, step.once, once)
		}
		// Helm sends those about objects of one kind together.
		slices.Sort(got)
		slices.Sort(step.want)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s: -want +got:\n%s", step.action, step.reason, diff)
		}
	}
}

func TestInstallUpgradeUninstall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request(plain, fields{"greeting": "good morning"})
	result := w.mustRun(r)
	if result.Revision != 1 || result.Chart != (helm.Metadata{Name: "plain", Version: "1.0.0", AppVersion: "1.0"}) || len(result.Objects) != 2 {
		t.Errorf("expected the first revision of two objects, but found %+v", result)
	}
	if diff := cmp.Diff(w.audience.objects, result.Objects); diff != "" {
		t.Errorf("the observer must see what is deployed: -seen +deployed:\n%s", diff)
	}
	if result.Objects[0].Source != "plain/templates/greeting.yaml" {
		t.Errorf("expected the source of the object, but found %q", result.Objects[0].Source)
	}
	rel := w.releases()[0]
	if rel.Labels["pergola.dev/deployitem"] != "some.item" {
		t.Errorf("expected the label on the revision, but found %v", rel.Labels)
	}
	live := w.Get(configMaps, "shop-plain-greeting")
	if live.GetManagedFields()[0].Manager != "helm" {
		t.Errorf("expected Helm's own field manager, but found %v", live.GetManagedFields())
	}

	r = w.request(plain, nil)
	r.Action, r.Labels = helm.Upgrade, map[string]string{"pergola.dev/input": "2-abc"}
	if got := w.mustRun(r).Revision; got != 2 {
		t.Errorf("expected revision 2, but found %d", got)
	}
	w.mustHave("1:superseded", "2:deployed")
	if got := w.releases()[1]; len(got.Config) > 0 || got.Labels["pergola.dev/input"] != "2-abc" || got.Labels["pergola.dev/deployitem"] != "some.item" {
		t.Errorf("expected the values given and the labels of both, but found %v and %v", got.Config, got.Labels)
	}

	r.Action = helm.Uninstall
	if got := w.mustRun(r); got.Revision != 2 || got.Kept != "" {
		t.Errorf("expected that revision 2 goes, but found %+v", got)
	}
	w.mustHave()
	if w.Get(configMaps, "shop-plain-greeting") != nil {
		t.Error("an object is left")
	}
	if got := w.mustRun(r); got.Revision != 0 {
		t.Errorf("expected that there was no revision, but found %+v", got)
	}
}

func TestActionGoesByWhatThereIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request(plain, nil)
	r.Action = helm.Upgrade
	w.mustRun(r)
	w.mustHave("1:deployed")
	r.Action = helm.Install
	w.mustRun(r)
	w.mustHave("1:superseded", "2:deployed")
}

// TestNamespaceIsMissing: the error has the remedy. The rest is shown with the deployer, by TestNamespaceOfTheRelease.
func TestNamespaceIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request(plain, nil)
	r.Release.Namespace = w.Namespace + "-new"
	w.mustFail(r, helm.ClusterFailed, "not found; set createNamespace, or create the namespace")
}

func TestReplacedObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chart := charts.Pack("plain", charts.File("templates/list.yaml", `# a comment of the author
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: one}
  data: {a: "<b> & 😀", n: "1"}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: two}
`))
	w.audience.replace = func(_ context.Context, objects []helm.Object) ([]helm.Object, error) {
		for i, o := range objects {
			// As on the way between processes, where the text of JSON changes.
			escaped, err := json.Marshal(o.JSON)
			if err != nil {
				return nil, err
			}
			objects[i].JSON = escaped
		}
		objects = slices.Clone(objects)
		for i, o := range objects {
			if strings.Contains(string(o.JSON), `"shop-plain-greeting"`) {
				objects[i].JSON = []byte(strings.Replace(string(o.JSON), `"hello"`, `"\ud83d\ude00 replaced"`, 1))
			}
			if strings.Contains(string(o.JSON), `"two"`) {
				objects[i].JSON = []byte(strings.Replace(string(o.JSON), `"metadata"`, `"data":{"b":"12"},"metadata"`, 1))
			}
		}
		return objects, nil
	}
	result := w.mustRun(w.request(chart, nil))
	if got := w.Get(configMaps, "shop-plain-greeting").Object["data"].(fields)["greeting"]; got != "😀 replaced" {
		t.Errorf("expected what the observer has returned, but found %q", got)
	}
	if one, two := w.Get(configMaps, "one"), w.Get(configMaps, "two"); one.Object["data"].(fields)["a"] != "<b> & 😀" || two.Object["data"].(fields)["b"] != "12" {
		t.Errorf("expected the objects of the list, but found %v and %v", one, two)
	}
	manifest := w.releases()[0].Manifest
	if !strings.Contains(manifest, "# Source: plain/templates/settings.yaml\napiVersion") || !strings.Contains(manifest, "# Source: plain/templates/greeting.yaml\n") ||
		strings.Count(manifest, "# Source: plain/templates/list.yaml\n") != 2 {
		t.Errorf("expected the sources in the manifest:\n%s", manifest)
	}
	if len(result.Objects) != 4 {
		t.Errorf("expected four objects, but found %+v", result.Objects)
	}
}

func TestRefusedObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.audience.replace = func(context.Context, []helm.Object) ([]helm.Object, error) {
		return nil, errors.New("no room for it")
	}
	w.mustFail(w.request(plain, nil), helm.Refused, "no room for it")
	w.audience.changing = func(context.Context) error { return errors.New("not now") }
	w.mustFail(w.request(charts.Pack("definitions"), nil), helm.Refused, "not now")
	w.mustHave()
	for _, request := range w.Requests.Take() {
		if !strings.HasPrefix(request, "GET") {
			t.Errorf("expected no write, but found %s", request)
		}
	}
}

// TestChangesNeedPermission: a refused first change ends each action, and nothing is written.
func TestChangesNeedPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refuse := func(context.Context) error { return errors.New("not now") }
	install, upgrade, uninstall := w.request(plain, nil), w.request(plain, fields{"greeting": "again"}), w.request(plain, nil)
	uninstall.Action = helm.Uninstall
	w.audience.changing = refuse
	w.mustFail(install, helm.Refused, "not now")
	asked := 0
	w.audience.changing = func(context.Context) error {
		asked++
		return nil
	}
	w.mustRun(install)
	if asked != 1 {
		t.Errorf("expected one question, but found %d", asked)
	}
	w.Requests.Take()
	w.audience.changing = refuse
	w.mustFail(upgrade, helm.Refused, "not now")
	w.mustFail(uninstall, helm.Refused, "not now")
	w.mustHave("1:deployed")
	for _, request := range w.Requests.Take() {
		if !strings.HasPrefix(request, "GET") {
			t.Errorf("expected no write, but found %s", request)
		}
	}
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gadgets := schema.GroupVersionResource{Group: "charts.example.org", Version: "v1", Resource: "gadgets"}
	result := w.mustRun(w.request(charts.Pack("definitions"), nil))
	if len(result.Definitions) != 1 || len(result.Objects) != 1 {
		t.Errorf("expected a definition and an object, but found %+v", result)
	}
	if steps := w.audience.steps(); !strings.HasPrefix(steps[2], "InstallDefinitions: ") || !strings.Contains(steps[2], "CustomResourceDefinition") {
		t.Errorf("expected progress about the definition, but found %v", steps)
	}
	w.Patch(gadgets, "shop-definitions", `{"spec":{"size":99}}`)
	w.mustRun(w.request(charts.Pack("definitions"), nil))
	if got := w.Get(gadgets, "shop-definitions").Object["spec"].(fields)["size"]; got == int64(99) {
		t.Error("an upgrade must repair what somebody has changed, in custom resources as well")
	}
}

// TestWarningsOfTheTarget: the user hears of a field that the API server drops, when it is created and when it is changed.
// Rule (helm.md#for-operators): The API server's warnings about objects of a release reach the user.
func TestWarningsOfTheTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chart := charts.Pack("plain", charts.File("templates/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndatta: {}\n"))
	w.mustRun(w.request(chart, nil))
	if want := `TargetWarning: configmaps "more": unknown field "datta"`; !slices.Contains(w.audience.warnings, want) {
		t.Errorf("expected %q, but found %q", want, w.audience.warnings)
	}
}

func TestReleaseThatDoesNotFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chart := charts.Pack("plain", charts.File("noise.bin", noise(2<<20)))
	w.mustFail(w.request(chart, nil), helm.Rejected, "1 MiB")
	w.mustHave()
}

// noise is what cannot be compressed.
func noise(size int) string {
	b := make([]byte, size)
	state := uint64(1)
	for i := range b {
		state = state*6364136223846793005 + 1442695040888963407
		b[i] = byte(state >> 56)
	}
	return string(b)
}
