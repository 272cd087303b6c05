package objectjob

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestDescribeUnrecorded(t *testing.T) {
	t.Parallel()
	item := &landscaper.DeployItem{}
	item.Namespace, item.Name = "shop", "web"
	how := "list its other objects with kubectl get KIND -A -l pergola.dev/deployitem=shop.web"
	for name, c := range map[string]struct {
		others, unread []string
		want           string
	}{
		"nothing else": {want: how},
		"not listed":   {unread: []string{"Secret"}, want: "objects of these kinds cannot be listed: Secret; " + how},
		"many": {
			others: []string{"a", "b", "c", "d", "e", "f", "g"},
			want: "these objects have its label but are not in its manifests; " +
				"delete the unneeded ones: a, b, c, d, e, and 2 more; " + how,
		},
	} {
		if got := describeUnrecorded(c.others, c.unread, item); got != c.want {
			t.Errorf("%s: expected %q, but found %q", name, c.want, got)
		}
	}
}

func TestWasBefore(t *testing.T) {
	t.Parallel()
	began := time.Now()
	before := began.Add(-time.Hour)
	for name, c := range map[string]struct {
		reason         string
		saved          bool
		finished       string
		created, begun time.Time
		want           bool
	}{
		"first call": {reason: "nothing was noted before", created: began, want: true},
		"later call": {reason: "a stage had to wait", saved: true, created: before, begun: began, want: true},
		"cut off": {
			reason: "an earlier call has created it", saved: true, created: began.Add(time.Second), begun: began,
		},
		"another job":   {reason: "an earlier job has noted it", saved: true, finished: "1", created: before, begun: began},
		"not picked up": {reason: "nobody knows when the job began", saved: true, created: before},
		"without a status": {
			reason: "earlier jobs have applied nothing", finished: "1", created: before, begun: began, want: true,
		},
	} {
		item, o := &landscaper.DeployItem{}, &metav1.PartialObjectMetadata{}
		item.Status.JobIDFinished = c.finished
		item.Status.TransitionTimes = &landscaper.TransitionTimes{InitTime: &landscaper.Time{Time: c.begun}}
		if c.saved {
			item.Status.ProviderStatus = &runtime.RawExtension{}
		}
		o.CreationTimestamp = metav1.NewTime(c.created)
		if got := wasBefore(item, o); got != c.want {
			t.Errorf("%s: %s: expected %t, but found %t", name, c.reason, c.want, got)
		}
	}
}
