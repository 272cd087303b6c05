package helm3_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/test/charts"
)

func TestClusterErrors(t *testing.T) {
	t.Parallel()
	file := func(content string) []byte { return charts.Pack("plain", charts.File("templates/more.yaml", content)) }
	for name, c := range map[string]struct {
		reason string
		chart  []byte
		values fields
		kind   helm.Kind
		text   []string
	}{
		"rejected": {
			reason: "the API server finds the object wrong", chart: charts.Pack("broken"),
			values: fields{"failure": "rejected"},
			kind:   helm.Rejected, text: []string{`install release shop: `, `ConfigMap "shop-rejected" is invalid`},
		},
		"unknown kind": {
			reason: "somebody may define it", chart: charts.Pack("broken"), values: fields{"failure": "unknown"},
			kind: helm.ClusterFailed,
			text: []string{`no matches for kind "Nothing" in version "charts.example.org/v1"`},
		},
		"missing namespace": {
			reason: "somebody may create it",
			chart:  file("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: nowhere}"),
			kind:   helm.ClusterFailed, text: []string{`namespaces "nowhere" not found`, `; create the namespace`},
		},
		"number for a text": {
			reason: "the API server does not say which object it could not read",
			chart:  file("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {n: 987654321}"),
			kind:   helm.Rejected, text: []string{`"a": ConfigMap in version "v1" cannot be handled`},
		},
		"value of the request": {
			reason: "the API server quotes what it does not like",
			chart:  file("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: {{ .Values.type }}, ports: [{port: 1}]}"),
			values: fields{"type": "Sup3rS3cret"},
			kind:   helm.Rejected, text: []string{`Service "a" is invalid: spec.type: Unsupported value: supported values: `},
		},
		"number in a Secret": {
			reason: "the API server cannot read it",
			chart:  file("apiVersion: v1\nkind: Secret\nmetadata: {name: creds}\nstringData: {password: {{ .Values.password }}}"),
			values: fields{"password": "12345678"},
			kind:   helm.Rejected, text: []string{`"creds": Secret in version "v1" cannot be handled`, "cannot unmarshal number"},
		},
		"no base64 in a Secret": {
			reason: "nor this",
			chart:  file("apiVersion: v1\nkind: Secret\nmetadata: {name: creds}\ndata: {password: \"Sup3r {{ randAlphaNum 3 }}!\"}"),
			kind:   helm.Rejected, text: []string{`"creds": Secret in version "v1" cannot be handled`, "illegal base64 data"},
		},
		"rejected hook": {
			reason: "it is named with its template", chart: charts.Pack("failinghook"),
			kind: helm.Rejected,
			text: []string{`post-install hook ConfigMap "shop-failinghook-hook" of failinghook/templates/hook.yaml`, "is invalid"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.mustFail(w.request(c.chart, c.values), c.kind, c.text...)
			if all := e.Message + strings.Join(w.audience.log, "\n"); strings.Contains(all, "Sup3r") || strings.Contains(all, "12345678") {
				t.Errorf("%s: found a value in: %s", c.reason, all)
			}
			if h := w.history(); len(h) > 0 && h[0] != "1:failed" {
				t.Errorf("%s: expected a revision that has failed, if any, but found %v", c.reason, h)
			}
		})
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
	e := w.mustFail(w.request(chart, values), helm.Rejected, `Job.batch "init" is invalid: spec.template: field is immutable`)
	said := e.Message + strings.Join(w.audience.log, "\n")
	for _, r := range w.releases() {
		said += r.Info.Description
	}
	if strings.Contains(said, "a2VlcGVyOmNvcnJlY3Q") || strings.Contains(said, "yrettab") || strings.Contains(said, "AUTHORIZATION") {
		t.Errorf("found what the API server quotes in: %s", said)
	}
	if strings.Contains(e.Message, "Patch ") {
		t.Errorf("expected no line about the steps of Helm in: %s", e.Message)
	}
	if n := strings.Count(e.Message, "immutable"); n != 1 {
		t.Errorf("expected the reason once, but found it %d times in %s", n, e.Message)
	}
}

func TestUnauthorized(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request(plain, nil)
	r.Kubeconfig = w.changed(func(c *clientcmdapi.Config) {
		c.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: "wrong"}
	})
	w.mustFail(r, helm.Unauthorized)
}

func TestForbiddenLookup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chart := charts.Pack("plain", charts.File("templates/more.yaml", "{{ lookup \"v1\" \"Secret\" \"kube-system\" \"\" }}"))
	r := w.request(chart, nil)
	r.Action = helm.Render
	r.Kubeconfig = w.changed(func(c *clientcmdapi.Config) {
		c.AuthInfos["user"].Impersonate = "nobody"
	})
	w.mustFail(r, helm.ClusterFailed, "plain/templates/more.yaml:1:", "forbidden")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request(plain, nil)
	r.Kubeconfig = w.changed(func(c *clientcmdapi.Config) { c.Clusters["cluster"].Server = "https://127.0.0.1:1" })
	w.mustFail(r, helm.Unreachable, "connection refused")
}

// TestKubeconfig: the host has checked what it says.
func TestKubeconfig(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request(plain, nil)
	r.Kubeconfig = []byte("users: [{token: s3cretive")
	if e := w.mustFail(r, helm.Rejected, "kubeconfig"); strings.Contains(e.Message, "s3cretive") {
		t.Errorf("found the token in: %s", e.Message)
	}
}

// TestRollbackFails: what it was for is still the cause. That it succeeds is shown with the deployer.
func TestRollbackFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hook := func(fails, events string) fields { return fields{"hook": fields{"fails": fails, "events": events}} }
	w.mustRun(w.request(charts.Pack("failinghook"), hook("reject", "post-rollback")))
	r := w.request(charts.Pack("failinghook"), hook("reject", "post-upgrade"))
	r.Options.Atomic = true
	w.mustFail(r, helm.Rejected, "post-upgrade hook", "an error occurred while rolling back the release", "post-rollback hook")
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
	for name, conditions := range map[string][]string{
		"complete": {"SuccessCriteriaMet", "Complete"}, "failed": {"FailureTarget", "Failed"},
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
			w.Eventually("the Job", func() bool { return w.Get(jobs, "shop-failinghook-hook") != nil })
			w.finishJob(conditions)
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

func (w *world) finishJob(conditions []string) {
	w.Helper()
	job := w.Get(jobs, "shop-failinghook-hook")
	now := metav1.Now().UTC().Format(time.RFC3339)
	status := fields{"startTime": now, "uncountedTerminatedPods": fields{}}
	if conditions[1] == "Complete" {
		status["completionTime"], status["succeeded"] = now, int64(1)
	} else {
		status["failed"] = int64(1)
	}
	var all []any
	for _, c := range conditions {
		all = append(all, fields{"type": c, "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": now})
	}
	status["conditions"], job.Object["status"] = all, status
	if _, err := w.Objects(jobs).UpdateStatus(w.Context(), job, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestKeptObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(w.request(charts.Pack("keep"), nil))
	r := w.request(plain, nil)
	r.Action = helm.Uninstall
	if got := w.mustRun(r).Kept; got != "[ConfigMap] shop-keep-archive" {
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
	r := w.request(plain, nil)
	r.Action = helm.Uninstall
	w.mustRun(r)
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
		"metadata": fields{"name": "sh.helm.release.v1.shop.v2", "labels": fields{"owner": "helm", "name": "shop", "version": "2", "status": "deployed"}},
	})
	w.mustFail(w.request(plain, nil), helm.ClusterFailed, "sh.helm.release.v1.shop.v2", "cannot be read")
	r := w.request(plain, nil)
	r.Action = helm.Uninstall
	w.mustRun(r)
	if w.Get(secrets, "sh.helm.release.v1.shop.v2") != nil {
		t.Error("the Secret is left")
	}
	if got := w.audience.warnings; len(got) != 1 || !strings.Contains(got[0], "Secret sh.helm.release.v1.shop.v2 is deleted") {
		t.Errorf("expected a warning about the Secret, but found %q", got)
	}
}

// TestAlreadyUninstalling leaves a release alone during its removal by another client.
func TestAlreadyUninstalling(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(w.request(plain, nil))
	w.store(func(all []*release.Release) *release.Release {
		all[0].Info.Status = release.StatusUninstalling
		return all[0]
	})
	w.mustFail(w.request(plain, nil), helm.Pending, "another client is uninstalling")
}
