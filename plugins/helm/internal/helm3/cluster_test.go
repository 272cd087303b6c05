package helm3_test

import (
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// template is the chart plain with another template.
func template(content string) []byte {
	return charts.Pack("plain", charts.File("templates/more.yaml", content))
}

// TestClusterErrors: an error of the API server has a kind and names the object, and quotes no value.
func TestClusterErrors(t *testing.T) {
	t.Parallel()
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a"
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: creds}\n"
	for name, c := range map[string]struct {
		chart  []byte
		values fields
		kind   helm.Kind
		text   string
	}{
		"rejected": {
			charts.Pack("broken"), fields{"failure": "rejected"}, helm.Rejected,
			`install release shop: 1 error occurred: * ConfigMap "shop-rejected" is invalid`,
		},
		"unknown kind": {
			charts.Pack("broken"), fields{"failure": "unknown"}, helm.ClusterFailed,
			`no matches for kind "Nothing" in version "charts.example.org/v1"`,
		},
		"missing namespace": {
			template(configMap + ", namespace: nowhere}"), nil, helm.ClusterFailed,
			`namespaces "nowhere" not found ; create the namespace`,
		},
		"number for a text": {
			template(configMap + "}\ndata: {n: 12345678}"), nil, helm.Rejected,
			`"a": ConfigMap in version "v1" cannot be handled`,
		},
		"number in a Secret": {
			template(secret + "stringData: {password: {{ .Values.password }}}"), fields{"password": "12345678"}, helm.Rejected,
			`"creds": Secret in version "v1" cannot be handled as a Secret: json: cannot unmarshal number`,
		},
		"no base64 in a Secret": {
			template(secret + "data: {password: \"Sup3r {{ randAlphaNum 3 }}!\"}"), nil, helm.Rejected,
			`"creds": Secret in version "v1" cannot be handled as a Secret: illegal base64 data`,
		},
		"rejected hook": {
			charts.Pack("failinghook"), nil, helm.Rejected,
			`post-install hook ConfigMap "shop-failinghook-hook" of failinghook/templates/hook.yaml`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.mustFail(w.request(c.chart, c.values), c.kind, c.text)
			w.mustHide(e.Message, "Sup3r", "12345678")
			if h := w.history(); len(h) > 0 && h[0] != "1:failed" {
				t.Errorf("expected a revision that has failed, if any, but found %v", h)
			}
		})
	}
}

// mustHide checks that neither a message nor Helm's log or record holds one of the texts.
func (w *world) mustHide(message string, texts ...string) {
	w.Helper()
	said := message + strings.Join(w.audience.log, "\n")
	for _, r := range w.releases() {
		said += r.Info.Description
	}
	for _, text := range texts {
		if strings.Contains(said, text) {
			w.Errorf("expected %q to be hidden, but found it in: %s", text, said)
		}
	}
}

// TestRefusedUpgrade: an error about a field that cannot be changed names the field, and neither it nor Helm's record
// holds what a template has made of a value.
// Rule (SECURITY.md#secrets): Neither an error nor Helm's record holds an API server's quotes of an object.
func TestRefusedUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chart := charts.Pack("plain", charts.File("templates/job.yaml", `
apiVersion: batch/v1
kind: Job
metadata: {name: init}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: init
        image: {{ .Values.image }}
        env:
        - {name: AUTHORIZATION, value: Basic {{ printf "keeper:%s" .Values.password | b64enc }}}
        - {name: REVERSED, value: {{ .Values.password | splitList "" | reverse | join "" }}}
`))
	values := fields{"image": "example.org/init:1", "password": "correct-horse-battery"}
	w.mustRun(w.request(chart, values))
	values["image"] = "example.org/init:2"
	e := w.mustFail(w.request(chart, values), helm.Rejected,
		`Job.batch "init" is invalid: spec.template: field is immutable`)
	w.mustHide(e.Message, "a2VlcGVyOmNvcnJlY3Q", "yrettab", "AUTHORIZATION")
	if strings.Contains(e.Message, "Patch ") || strings.Count(e.Message, "immutable") != 1 {
		t.Errorf("expected the reason once, and no line about the steps of Helm, but found: %s", e.Message)
	}
}

// TestAccess: an error about the way to the cluster has a kind.
func TestAccess(t *testing.T) {
	t.Parallel()
	lookup := template("{{ lookup \"v1\" \"Secret\" \"kube-system\" \"\" }}")
	for name, c := range map[string]struct {
		action helm.Action
		chart  []byte
		change func(*clientcmdapi.Config)
		kind   helm.Kind
		text   string
	}{
		"unauthorized": {helm.Install, plain, func(c *clientcmdapi.Config) {
			c.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: "wrong"}
		}, helm.Unauthorized, ""},
		"forbidden": {helm.Render, lookup, func(c *clientcmdapi.Config) {
			c.AuthInfos["user"].Impersonate = "nobody"
		}, helm.ClusterFailed, "plain/templates/more.yaml:1:"},
		"unreachable": {helm.Install, plain, func(c *clientcmdapi.Config) {
			c.Clusters["cluster"].Server = "https://127.0.0.1:1"
		}, helm.Unreachable, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.request(c.chart, nil)
			r.Action, r.Kubeconfig = c.action, w.changed(c.change)
			w.mustFail(r, c.kind, c.text)
		})
	}
	t.Run("no kubeconfig", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		r := w.request(plain, nil)
		r.Kubeconfig = []byte("users: [{token: s3cretive")
		w.mustHide(w.mustFail(r, helm.Rejected, "kubeconfig").Message, "s3cretive")
	})
}

// TestRollbackFails: what it was for is still the cause. That it succeeds is shown with the deployer.
func TestRollbackFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := func(fails, events string) fields { return fields{"hook": fields{"fails": fails, "events": events}} }
	w.mustRun(w.request(charts.Pack("failinghook"), hook("reject", "post-rollback")))
	r := w.request(charts.Pack("failinghook"), hook("reject", "post-upgrade"))
	r.Options.Atomic = true
	w.mustFail(r, helm.Rejected, "post-upgrade hook", "an error occurred while rolling back the release",
		"post-rollback hook")
	w.mustHave("1:deployed", "2:failed", "3:failed")
	if steps := w.audience.steps(); !slices.Contains(steps, "Rollback: Rolling back after a failure: Rollback to 1") {
		t.Errorf("expected progress about it, but found %v", steps)
	}
	w.mustRun(w.request(plain, nil))
	w.mustHave("1:superseded", "2:failed", "3:failed", "4:deployed")
}

// TestHookJob: the release goes on when the Job of a hook is complete, and ends when it fails.
// Rule (helm.md#releases): A failed Job of a hook fails the release.
func TestHookJob(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]string{
		"complete": `"succeeded":1,"completionTime":"2026-01-01T00:01:00Z","conditions":[
			{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]`,
		"failed": `"failed":1,"conditions":[{"type":"FailureTarget","status":"True","reason":"BackoffLimitExceeded"},
			{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			done := make(chan error, 1)
			r := w.request(charts.Pack("failinghook"), fields{"hook": fields{"fails": "hang"}})
			go func() {
				_, err := w.client.Run(t.Context(), r, w.audience)
				done <- err
			}()
			const hook = "shop-failinghook-hook"
			w.Eventually("the Job", func() bool { return w.Get(jobs, hook) != nil })
			const begun = `{"status":{"startTime":"2026-01-01T00:00:00Z","uncountedTerminatedPods":{},`
			w.Patch(jobs, hook, begun+status+`}}`, "status")
			err := <-done
			if name == "complete" && err == nil {
				w.mustHave("1:deployed")
				return
			}
			mustBe(t, err, helm.ChartHookFailed,
				`post-install hook Job "shop-failinghook-hook" of failinghook/templates/hook.yaml`, "BackoffLimitExceeded")
			w.mustHave("1:failed")
		})
	}
}

func TestKeptObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(w.request(charts.Pack("keep"), nil))
	if got := w.mustRun(w.uninstall()).Kept; got != "[ConfigMap] shop-keep-archive" {
		t.Errorf("expected the object that is kept, but found %q", got)
	}
	if w.Get(configMaps, "shop-keep-archive") == nil || w.Get(configMaps, "shop-keep-greeting") != nil {
		t.Error("expected that one object is kept")
	}
}

// TestKindIsGone removes a release after the definition of one of its kinds has gone.
// Rule (helm.md#deletion): A release is removed although one of its kinds is not served any more.
func TestKindIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, gone := w.CRD("Gone")
	isServed := func() bool {
		_, err := w.Objects(gone).List(w.Context(), metav1.ListOptions{})
		return err == nil
	}
	w.Create(plugintest.CRDs, definition)
	w.Eventually("the kind", isServed)
	w.mustRun(w.request(charts.Pack("plain", charts.File("templates/thing.yaml",
		"apiVersion: "+gone.Group+"/v1\nkind: Gone\nmetadata: {name: thing}\n")), nil))
	w.Delete(plugintest.CRDs, gone.Resource+"."+gone.Group)
	w.Eventually("the end of a kind", func() bool { return !isServed() })
	w.mustRun(w.uninstall())
	w.mustHave()
	if w.Get(configMaps, "shop-plain-greeting") != nil {
		t.Error("the other objects must go")
	}
	if log := strings.Join(w.audience.log, "\n"); !strings.Contains(log, `no matches for kind "Gone"`) {
		t.Errorf("expected a line about it, but found:\n%s", log)
	}
}

// Rule (helm.md#deletion): An unreadable revision is an error; a deletion deletes it and tells.
func TestUnreadableRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(w.request(plain, nil))
	w.Create(secrets, fields{
		"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "stringData": fields{"release": "nonsense"},
		"metadata": fields{"name": "sh.helm.release.v1.shop.v2", "labels": fields{
			"owner": "helm", "name": "shop", "version": "2", "status": "deployed",
		}},
	})
	w.mustFail(w.request(plain, nil), helm.ClusterFailed, "sh.helm.release.v1.shop.v2", "cannot be read")
	w.mustRun(w.uninstall())
	if w.Get(secrets, "sh.helm.release.v1.shop.v2") != nil {
		t.Error("the Secret is left")
	}
	if got := w.audience.warnings; len(got) != 1 ||
		!strings.Contains(got[0], "Secret sh.helm.release.v1.shop.v2 is deleted") {
		t.Errorf("expected a warning about the Secret, but found %q", got)
	}
}

// TestAlreadyUninstalling leaves a release alone during its removal by another client.
func TestAlreadyUninstalling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(w.request(plain, nil))
	w.mark(release.StatusUninstalling)
	w.mustFail(w.request(plain, nil), helm.Pending, "another client is uninstalling")
}
