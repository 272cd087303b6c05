package helm3_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestRequests: a release is listed once, kinds are discovered once, and each object is read once. The action goes by
// what there is.
func TestRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, step := range []struct {
		action helm.Action
		// want are the requests: S stands for the Secrets, C for the ConfigMaps, v1 and v2 for the revisions.
		want string
		once int // requests for the version and the kinds
		has  []string
	}{
		{
			helm.Upgrade, "GET S, GET C/greeting, GET C/settings, POST S, POST C, POST C, PUT S/v1", 3,
			[]string{"1:deployed"},
		},
		{
			helm.Install, "GET S, POST S, GET C/greeting, GET C/settings, PUT S/v1, PUT S/v2", 3,
			[]string{"1:superseded", "2:deployed"},
		},
		{
			helm.Uninstall, "GET S, PUT S/v2, GET C/greeting, GET C/settings, DELETE C/greeting, DELETE C/settings, " +
				"DELETE S/v1, DELETE S/v2", 2, nil,
		},
		{helm.Uninstall, "GET S", 0, nil},
	} {
		r := w.request(plain, nil)
		r.Action = step.action
		before := w.Requests.AskedOnce()
		w.mustRun(r)
		got, once := w.Requests.Take(), w.Requests.AskedOnce()-before
		if once != step.once {
			t.Errorf("%s: expected %d requests for the version and the kinds, but found %d", step.action, step.once, once)
		}
		short := strings.NewReplacer("/api/v1/namespaces/"+w.Namespace+"/", "", "secrets", "S", "configmaps", "C",
			"sh.helm.release.v1.shop.", "", "shop-plain-", "")
		for i := range got {
			got[i] = short.Replace(got[i])
		}
		want := strings.Split(step.want, ", ")
		slices.Sort(got) // Helm sends those about objects of one kind together
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.action, diff)
		}
		w.mustHave(step.has...)
	}
}

// TestResults: what a request is answered with, and what it leaves.
func TestResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request(plain, fields{"greeting": "good morning"})
	result := w.mustRun(r)
	about := helm.Metadata{Name: "plain", Version: "1.0.0", AppVersion: "1.0"}
	if result.Revision != 1 || result.Chart != about || len(result.Objects) != 2 ||
		result.Objects[0].Source != "plain/templates/greeting.yaml" {
		t.Errorf("expected the first revision of two objects, but found %+v", result)
	}
	if diff := cmp.Diff(w.audience.objects, result.Objects); diff != "" {
		t.Errorf("the observer must see what is deployed: -seen +deployed:\n%s", diff)
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
	if got := w.releases()[1]; len(got.Config) > 0 || got.Labels["pergola.dev/input"] != "2-abc" ||
		got.Labels["pergola.dev/deployitem"] != "some.item" {
		t.Errorf("expected the given values and the labels of both, but found %v and %v", got.Config, got.Labels)
	}
	for _, revision := range []int{2, 0} {
		if got := w.mustRun(w.uninstall()); got.Revision != revision || got.Kept != "" {
			t.Errorf("expected that revision %d goes, but found %+v", revision, got)
		}
		if w.mustHave(); w.Get(configMaps, "shop-plain-greeting") != nil {
			t.Error("an object is left")
		}
	}
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
	changes := strings.NewReplacer(`"hello"`, `"\ud83d\ude00 replaced"`, `"two"`, `"two","labels":{"b":"12"}`)
	w.audience.replace = func(_ context.Context, objects []helm.Object) ([]helm.Object, error) {
		objects = slices.Clone(objects)
		for i, o := range objects {
			// As on the way between processes, where the text of JSON changes.
			escaped, err := json.Marshal(o.JSON)
			if err != nil {
				return nil, err
			}
			objects[i].JSON = []byte(changes.Replace(string(escaped)))
		}
		return objects, nil
	}
	result := w.mustRun(w.request(chart, nil))
	dataOf := func(name string) fields { return w.MustGet(configMaps, name).Object["data"].(fields) }
	if greeting, text := dataOf("shop-plain-greeting")["greeting"], dataOf("one")["a"]; greeting != "😀 replaced" ||
		text != "<b> & 😀" || w.MustGet(configMaps, "two").GetLabels()["b"] != "12" {
		t.Errorf("expected what the observer has returned, but found %q and %q", greeting, text)
	}
	manifest := w.releases()[0].Manifest
	for source, times := range map[string]int{"settings.yaml\napiVersion": 1, "greeting.yaml\n": 1, "list.yaml\n": 2} {
		if strings.Count(manifest, "# Source: plain/templates/"+source) != times {
			t.Errorf("expected %q %d times in the manifest:\n%s", source, times, manifest)
		}
	}
	if len(result.Objects) != 4 {
		t.Errorf("expected four objects, but found %+v", result.Objects)
	}
}

// TestRefusals: refused objects and a refused first change end each action, and nothing is written.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var asked int
	answer := func(err error) func(context.Context) error {
		return func(context.Context) error {
			asked++
			return err
		}
	}
	refused := answer(errors.New("not now"))
	w.audience.replace = func(context.Context, []helm.Object) ([]helm.Object, error) {
		return nil, errors.New("no room for it")
	}
	w.mustFail(w.request(plain, nil), helm.Refused, "no room for it")
	w.audience.replace, w.audience.changing = nil, refused
	w.mustFail(w.request(charts.Pack("definitions"), nil), helm.Refused, "not now")
	w.mustFail(w.request(plain, nil), helm.Refused, "not now")
	w.mustNotWrite()
	asked, w.audience.changing = 0, answer(nil)
	w.mustRun(w.request(plain, nil))
	if asked != 1 {
		t.Errorf("expected one question, but found %d", asked)
	}
	w.Requests.Take()
	w.audience.changing = refused
	w.mustFail(w.request(plain, fields{"greeting": "again"}), helm.Refused, "not now")
	w.mustFail(w.uninstall(), helm.Refused, "not now")
	w.mustHave("1:deployed")
	w.mustNotWrite()
}

// TestDefinitions: the rest about them is shown with the deployer.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	result := w.mustRun(w.request(charts.Pack("definitions"), nil))
	if len(result.Definitions) != 1 || len(result.Objects) != 1 {
		t.Errorf("expected a definition and an object, but found %+v", result)
	}
	if steps := w.audience.steps(); !strings.HasPrefix(steps[2], "InstallDefinitions: ") ||
		!strings.Contains(steps[2], "CustomResourceDefinition") {
		t.Errorf("expected progress about the definition, but found %v", steps)
	}
}

// TestWarningsOfTheTarget: the user hears of a field that the API server drops.
// Rule (helm.md#for-operators): The API server's warnings about objects of a release reach the user.
func TestWarningsOfTheTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(w.request(template("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndatta: {}\n"), nil))
	if want := `TargetWarning: configmaps "more": unknown field "datta"`; !slices.Contains(w.audience.warnings, want) {
		t.Errorf("expected %q, but found %q", want, w.audience.warnings)
	}
}

func TestReleaseThatDoesNotFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	noise := make([]byte, 2<<20) // which cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	w.mustFail(w.request(charts.Pack("plain", charts.File("noise.bin", string(noise))), nil), helm.Rejected, "1 MiB")
	w.mustHave()
}
