package helm

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	succeeded = v1alpha1.DeployItemPhaseSucceeded
	failed    = v1alpha1.DeployItemPhaseFailed
)

// operation is one of Helm's that is struck.
type operation struct {
	name, reason string
	// before is what is deployed before; nil for nothing.
	before deployment
	// struck is what is being deployed; nil for a deletion.
	struck deployment
	// mended is what is deployed after the job under way has failed, as it would without a blow; nil if that succeeds.
	mended deployment
	// deleted says that the item is deleted as soon as it was struck.
	deleted bool
	// leaves is the end of the name of what a hook makes that is only for the installation; empty for none.
	leaves string
}

func operations() []operation {
	plain := func(greeting string) deployment { return deploy("plain", object{"greeting": greeting}) }
	hooks := func(greeting string) deployment { return deploy("hooks", object{"greeting": greeting}) }
	failing := func(fails, greeting string) deployment {
		return deploy("failinghook", object{"greeting": greeting, "hook": object{"fails": fails}},
			object{"helmDeploymentConfig": object{"upgrade": object{"atomic": true}}})
	}
	return []operation{
		{name: "install", reason: "a first revision", struck: plain("one")},
		{name: "install with hooks", reason: "hooks write the revision again", struck: hooks("one"), leaves: "-announce"},
		{name: "upgrade", reason: "a second revision", before: plain("one"), struck: plain("two")},
		{name: "upgrade with hooks", reason: "both at once", before: hooks("one"), struck: hooks("two")},
		{
			name: "rollback", reason: "a third revision follows the one that has failed",
			before: failing("none", "one"), struck: failing("reject", "two"), mended: failing("none", "three"),
		},
		{name: "uninstall", reason: "the end", before: hooks("one")},
		{name: "uninstall of what is half installed", reason: "Helm uninstalls nothing that is in progress", struck: plain("one"), deleted: true},
	}
}

// TestKillAtEachStorageWrite kills the plugin, and then the host, at each write of Helm's storage in each operation, before the API server
// gets the write or after it has carried it out. Many releases are struck by one blow, each at another write. The next try ends with a clean
// release, and without that somebody is told that another operation is in progress.
func TestKillAtEachStorageWrite(t *testing.T) {
	proxy := newStorageProxy(t)
	kubeconfig, err := proxy.front.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	writes := map[string]int{}
	t.Run("undisturbed", func(t *testing.T) {
		l := &life{world: newWorld(t, kubeconfig), proxy: proxy}
		l.startHost()
		for _, o := range operations() {
			writes[o.name] = l.count(o)
		}
		t.Logf("writes: %v", writes)
	})
	if t.Failed() {
		t.FailNow()
	}
	for _, victim := range []string{"plugin", "host"} {
		for _, o := range operations() {
			t.Run(victim+", "+o.name, func(t *testing.T) {
				l := &life{world: newWorld(t, kubeconfig), proxy: proxy}
				l.startHost()
				l.strike(o, victim, writes[o.name])
			})
		}
	}
}

// life is that of items whose releases are watched by a proxy.
type life struct {
	*world

	proxy *storageProxy
}

// count carries an operation out and returns how often it writes to Helm's storage.
func (l *life) count(o operation) int {
	l.Helper()
	name := strings.ReplaceAll(o.name, " ", "-")
	l.prepare(o, name)
	l.proxy.watch(l.home(name), point{})
	jobID := l.begin(o, name)
	if o.struck == nil {
		l.awaitGone(name)
		return l.proxy.writes(l.home(name))
	}
	l.finish(name, jobID, map[bool]v1alpha1.DeployItemPhase{true: failed, false: succeeded}[o.mended != nil])
	return l.proxy.writes(l.home(name))
}

// prepare deploys what is deployed before the operation.
func (l *life) prepare(o operation, names ...string) {
	l.Helper()
	if o.before == nil {
		return
	}
	jobs := map[string]string{}
	for _, name := range names {
		jobs[name] = l.put(name, o.before)
	}
	for name, jobID := range jobs {
		l.finish(name, jobID, succeeded)
	}
}

// begin sets the job that carries out the operation.
func (l *life) begin(o operation, name string) (jobID string) {
	l.Helper()
	if o.struck == nil {
		return l.remove(name)
	}
	return l.put(name, o.struck)
}

// strike carries out an operation for so many items that each of its writes can be struck, before and after, and checks what comes of them.
func (l *life) strike(o operation, victim string, writes int) {
	l.Helper()
	names, jobs := []string{}, map[string]string{}
	points := map[string]point{}
	for n := 1; n <= writes; n++ {
		for _, carryOut := range []bool{false, true} {
			p := point{write: n, carryOut: carryOut}
			names, points[p.String()] = append(names, p.String()), p
		}
	}
	l.prepare(o, names...)
	for _, name := range names {
		l.proxy.watch(l.home(name), points[name])
	}
	said := l.listen()
	for _, name := range names {
		jobs[name] = l.begin(o, name)
	}
	l.eventually("all releases to get to the write at which they are struck", func(context.Context) (string, error) {
		return l.proxy.without(isHeld), nil
	})
	l.kill(victim)
	l.eventually("the workers to end with the "+victim, func(context.Context) (string, error) {
		return l.proxy.without(isAbandoned), nil
	})
	if o.deleted {
		for _, name := range names {
			l.remove(name)
		}
	}
	if victim == "host" {
		l.startHost()
	}
	for _, name := range names {
		l.check(o, name, jobs[name])
	}
	said.check(l.T)
}

// kill kills the victim with SIGKILL.
func (l *life) kill(victim string) {
	l.Helper()
	var err error
	if victim == "host" {
		err = l.host.Kill()
	} else {
		err = syscall.Kill(l.plugin(), syscall.SIGKILL)
	}
	if err != nil {
		l.Fatalf("kill the %s: %v", victim, err)
	}
}

// check waits for the end of a job that was struck, and checks the release.
func (l *life) check(o operation, name, jobID string) {
	l.Helper()
	switch {
	case o.struck == nil, o.deleted:
		l.awaitGone(name)
		l.mustBeGone(name)
	case o.mended != nil:
		l.finish(name, jobID, failed)
		l.finish(name, l.put(name, o.mended), succeeded)
		l.mustBeClean(name)
	default:
		l.finish(name, jobID, succeeded)
		l.mustBeClean(name)
	}
	if o.leaves != "" && !slices.ContainsFunc(l.hookObjects(name), func(object string) bool { return strings.HasSuffix(object, o.leaves) }) {
		l.Errorf("%s: the hook for the installation was not run: there is no object …%s", name, o.leaves)
	}
}

// mustBeClean checks that the newest revision of an item's release is deployed, that no other is, and that none is in progress.
func (w *world) mustBeClean(name string) {
	w.Helper()
	revisions := w.revisions(name)
	for i, r := range revisions {
		_, status, _ := strings.Cut(r, " ")
		expected := []string{"superseded", "failed"}
		if i == len(revisions)-1 {
			expected = []string{"deployed"}
		}
		if !slices.Contains(expected, status) {
			w.Errorf("%s: expected the newest revision to be deployed, and the others to be superseded or failed, but found %v", name, revisions)
			return
		}
	}
	if len(revisions) == 0 {
		w.Errorf("%s: there is no release", name)
	}
}

// mustBeGone checks that there is nothing left of an item's release but hooks that have no deletion policy for it.
func (w *world) mustBeGone(name string) {
	w.Helper()
	if revisions := w.revisions(name); len(revisions) > 0 {
		w.Errorf("%s: expected no revision, but found %v", name, revisions)
	}
	for _, o := range w.configMaps(name) {
		if o.Labels["app.kubernetes.io/managed-by"] == "Helm" && o.Annotations["helm.sh/hook"] == "" {
			w.Errorf("%s: ConfigMap %s is left", name, o.Name)
		}
	}
}

// hookObjects are the names of what the hooks of an item's release have made.
func (w *world) hookObjects(name string) (names []string) {
	w.Helper()
	for _, o := range w.configMaps(name) {
		if o.Annotations["helm.sh/hook"] != "" {
			names = append(names, o.Name)
		}
	}
	return names
}

// configMaps are those in the namespace of an item's release.
func (w *world) configMaps(name string) []corev1.ConfigMap {
	w.Helper()
	list := &corev1.ConfigMapList{}
	if err := admin.List(w.Context(), list, client.InNamespace(w.home(name))); err != nil {
		w.Fatal(err)
	}
	return list.Items
}
