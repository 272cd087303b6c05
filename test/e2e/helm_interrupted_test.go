package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// waitingCharts are charts by items' names that make Helm wait for what never comes, as there is no node, and what an
// item says meanwhile.
var waitingCharts = map[string]struct {
	chart, says string
	values      map[string]any
	options     map[string]any
}{
	"wait":   {chart: "workload", says: "Waiting until these are ready: ", options: map[string]any{"wait": true}},
	"atomic": {chart: "workload", says: "Waiting until these are ready: ", options: map[string]any{"atomic": true}},
	"hook": {
		chart: "failinghook", says: ` hook Job "shop-failinghook-hook"`,
		values: map[string]any{"hook": map[string]any{"fails": "hang", "events": "post-install,post-upgrade"}},
	},
}

// TestHelmIsInterrupted: when a job is aborted for which Helm waits, or its host is killed, Helm's processes end, and
// the next job goes on from there.
// Rule (helm.md#recovery): An operation of Helm ends with the abort of its job, and with its host.
func TestHelmIsInterrupted(t *testing.T) {
	options := testenv.HostOptions{PluginDir: pluginDir(t, "helm")}
	r := &releases{t: t, namespace: newNamespace(t), items: map[string]*v1alpha1.DeployItem{}}
	r.host = startReadyHost(t, options)
	createTarget(t, r.namespace, "target")
	for name := range waitingCharts {
		r.items[name] = withTarget(newItem(r.namespace, name, string(helmv1alpha1.Type), r.good(name)), "target")
		create(t, r.items[name])
	}
	r.goOn()

	for name, job := range r.wait() {
		ask(t, r.items[name], v1alpha1.OperationAbort)
		item := waitFinished(t, r.items[name], job)
		if item.Status.Phase != failed || item.Status.LastError.Reason != "Aborted" {
			t.Errorf("%s: expected that the job is aborted, but found %s", name, describe(item))
		}
	}
	eventually(t, "Helm's processes to end", func(context.Context) (string, error) {
		if workers := r.workers(); len(workers) > 0 {
			return fmt.Sprintf("there are %v", workers), nil
		}
		return "", nil
	})
	for name := range r.items { // whoever looks at the release with Helm's command line finds that he can go on
		if last := r.lastRevision(name); strings.Contains(last, "pending") {
			t.Errorf("%s: expected no operation to be in progress, but found revision %s", name, last)
		}
	}
	r.goOn()

	r.wait()
	workers := r.workers()
	if err := r.host.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Helm's processes to end with their host", func(context.Context) (string, error) {
		if slices.ContainsFunc(workers, running) {
			return fmt.Sprintf("one of %v runs", workers), nil
		}
		return "", nil
	})
	r.host = startReadyHost(t, options)
	r.goOn()
}

// releases are items of the helm deployer, each with a release in a namespace of its own.
type releases struct {
	t         *testing.T
	namespace string
	host      *testenv.Host
	items     map[string]*v1alpha1.DeployItem
	rounds    int
}

// config is the configuration of an item with a chart.
func (r *releases) config(item, chart string, values, options map[string]any) string {
	r.t.Helper()
	return string(marshal(r.t, map[string]any{
		"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": helmv1alpha1.ProviderConfigurationKind,
		"chart": map[string]any{"archive": map[string]any{"raw": base64.StdEncoding.EncodeToString(charts.Pack(chart))}},
		"name":  "shop", "namespace": r.namespace + "-" + item, "createNamespace": true, "values": values,
		"helmDeploymentConfig": map[string]any{"install": options, "upgrade": options},
	}))
}

// good is a configuration of an item with nothing to wait for, another one in each round.
func (r *releases) good(item string) string {
	return r.config(item, "plain", map[string]any{"greeting": fmt.Sprint("round ", r.rounds)}, waitingCharts[item].options)
}

// goOn gives each item a job that can be done, and checks that its release is in order then.
func (r *releases) goOn() {
	r.t.Helper()
	r.rounds++
	for name, item := range r.items {
		edit(r.t, item, func() { item.Spec.Config = &runtime.RawExtension{Raw: []byte(r.good(name))} })
		carryOutAgain(r.t, item, succeeded)
		if last := r.lastRevision(name); !strings.HasSuffix(last, " deployed") {
			r.t.Errorf("%s: expected the latest revision to be deployed, but found %s", name, last)
		}
	}
}

// wait sets jobs for which Helm waits, and returns them when it does.
func (r *releases) wait() (jobs map[string]string) {
	r.t.Helper()
	jobs = map[string]string{}
	for name, c := range waitingCharts {
		item := r.items[name]
		edit(r.t, item, func() {
			item.Spec.Config = &runtime.RawExtension{Raw: []byte(r.config(name, c.chart, c.values, c.options))}
		})
		jobs[name] = setJob(r.t, item)
	}
	for name, c := range waitingCharts {
		waitFor(r.t, r.items[name], "waiting", func(i *v1alpha1.DeployItem) bool {
			return i.Status.JobID == jobs[name] && strings.Contains(conditionOf(i, "Reconciling").Message, c.says)
		})
	}
	if workers := r.workers(); len(workers) != len(jobs) {
		r.t.Errorf("expected a process of Helm for each job, but found %v", workers)
	}
	return jobs
}

// workers are the ids of Helm's processes.
func (r *releases) workers() []int {
	r.t.Helper()
	children, err := testenv.Children(pid(r.t, r.host, "helm"))
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.Concat(slices.Collect(maps.Values(children))...)
}

// lastRevision is that of an item's release, as "2 deployed". There are never ten.
func (r *releases) lastRevision(item string) string {
	r.t.Helper()
	list := &corev1.SecretList{}
	ofHelm := client.MatchingLabels{"owner": "helm"}
	if err := admin.List(r.t.Context(), list, client.InNamespace(r.namespace+"-"+item), ofHelm); err != nil {
		r.t.Fatal(err)
	}
	last := ""
	for _, secret := range list.Items {
		last = max(last, secret.Labels["version"]+" "+secret.Labels["status"])
	}
	return last
}
