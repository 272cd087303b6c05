package inspect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// everything is an item about which there is something to say in each place.
func everything() inspect.Evidence {
	unreachable := contract.Error{Operation: "Apply", Reason: "Unreachable", Message: "connection refused"}
	forbidden := contract.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnauthorized}, Operation: "Apply", Reason: "Unauthorized",
		Message: "deployments is forbidden\nask \x1b[31msomebody",
	}
	item := after(underWay,
		retries(unreachable, 5*time.Second), retries(unreachable, 7*time.Second), fails(forbidden, 9*time.Second), changed)
	item.Status.ExportReference = &v1alpha1.ObjectReference{Name: "web-export"}
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"managedResources":[
		{"policy":"keep","resource":{"apiVersion":"v1","kind":"ConfigMap","namespace":"shop","name":"settings"}},
		{"apiVersion":"v1","kind":"Secret","namespace":"shop","name":"token"}]}`)}
	lock := func(name, holder string) v1alpha1.SyncObject {
		return v1alpha1.SyncObject{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.SyncObjectSpec{PodName: holder, LastUpdateTime: v1alpha1.NewTime(at(2 * time.Second))},
		}
	}
	return inspect.Evidence{
		Item: item, Now: at(10 * time.Minute),
		Locks: []v1alpha1.SyncObject{lock("helm-other", "nobody"), lock("helm-uid", "pergola-1")},
		Events: []eventsv1.Event{
			{
				EventTime: metav1.MicroTime{Time: at(9 * time.Second)},
				Type:      "Warning", Reason: "Unauthorized", Note: "deployments is forbidden",
			},
			{
				EventTime: metav1.MicroTime{Time: at(3 * time.Second)},
				Type:      "Warning", Reason: "Unreachable", Note: "connection refused",
				Series: &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.MicroTime{Time: at(7 * time.Second)}},
			},
		},
		Unread: errors.New("the list is old"),
	}
}

// Rule (deploy-items.md#view): The details have a line about the next try and one about a pause.
func TestDescribe(t *testing.T) {
	t.Parallel()
	lost := inspect.Evidence{
		Item: after(underWay), Now: at(time.Minute),
		TargetErr: errors.New("there is no such Target"), Unread: errors.New("events is forbidden"),
	}
	for name, e := range map[string]inspect.Evidence{
		"describe.golden.txt": everything(), "describe-lost.golden.txt": lost,
		"describe-new.golden.txt":     {Item: newItem(), Now: noon},
		"describe-paused.golden.txt":  {Item: after(succeeded, paused), Now: at(time.Minute)},
		"describe-retried.golden.txt": {Item: after(underWay[:2], retried), Now: at(3 * time.Minute)},
	} {
		text := inspect.Describe(e)
		commandtest.ExpectGolden(t, name, text)
		if strings.Contains(text, "t0ps3cret") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
}

// TestDescribeIsOnlyText: whatever clusters and plugins say, the terminal gets nothing but text.
// Rule (SECURITY.md#authors-of-items): The commands print texts of an item as plain text.
func TestDescribeIsOnlyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"\x1b[31mred", "\x1b]0;title\a", "\r\n\x1b[2J", "\xff\u202e"})
		e := everything()
		status := &e.Item.Status
		status.LastError.Message, status.LastError.Reason = text.Draw(t, "message"), text.Draw(t, "reason")
		status.Phase = v1alpha1.DeployItemPhase(text.Draw(t, "phase"))
		status.JobID, status.Deployer.Name = text.Draw(t, "job"), text.Draw(t, "deployer")
		e.Item.Name, e.Item.Spec.Target.Name = text.Draw(t, "name"), text.Draw(t, "target")
		e.TargetErr, e.Unread = errors.New(text.Draw(t, "error")), errors.New(text.Draw(t, "error"))
		e.Events[0].Note, status.Conditions[0].Reason = text.Draw(t, "note"), text.Draw(t, "reason")
		for _, r := range inspect.Describe(e) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q is shown", r)
			}
		}
	})
}

func TestAdvice(t *testing.T) {
	t.Parallel()
	failure := func(codes ...v1alpha1.ErrorCode) contract.Error {
		return contract.Error{Codes: codes, Operation: "Apply", Reason: "R", Message: "m", Terminal: true}
	}
	gone := contract.Error{
		Operation: contract.OperationResolve, Reason: contract.ReasonTargetNotFound, Message: "m", Terminal: true,
	}
	deleting := slices.Concat(succeeded, []step{deleted, jobSet("job-2", time.Minute), pickedUp(time.Minute)})
	failed := func(codes ...v1alpha1.ErrorCode) *v1alpha1.DeployItem {
		return after(underWay, fails(failure(codes...), time.Minute))
	}
	because := func(reason, message string) contract.Error {
		return contract.Error{Operation: "Apply", Reason: reason, Message: message}
	}
	const denied = `secrets "a" is forbidden: User "system:serviceaccount:a:b" cannot get resource "secrets" ` +
		`in API group "" in the namespace "shop"`
	const goesOn = "; the job tries again by itself until its timeout"
	for _, tc := range []struct {
		reason string
		item   *v1alpha1.DeployItem
		want   string // part of it; empty for no advice
	}{
		{"all is well", after(succeeded), ""},
		{"nothing has gone wrong yet", after(underWay), ""},
		{"it passes", after(underWay, retries(because("TargetBusy", "m"), time.Minute)), "nothing" + goesOn},
		{"it has not passed", after(underWay, fails(because("TargetBusy", "m"), time.Minute)), "has passed; then start"},
		{"no retry heals it", after(underWay, retries(failure(), time.Minute)), "fix the problem in the message" + goesOn},
		{
			"no Secret", after(underWay, retries(because(contract.ReasonSecretNotFound, "m"), time.Minute)),
			"create the missing object, or correct its name" + goesOn,
		},
		{
			"no right", after(underWay, retries(because("TargetError", denied), time.Minute)),
			`a RoleBinding of it to the ServiceAccount "a/b"` + goesOn,
		},
		{"no right for good", after(underWay, fails(because("HostError", denied), time.Minute)), "then start a new job"},
		{"no host", after(underWay, fails(because(contract.ReasonPickupTimeout, "m"), time.Minute)), "that a host runs"},
		{"a next try", newItem(slices.Concat(underWay[:2], []step{retried})...), "the next try comes by itself"},
		{"the user's fault", after(broken), "correct the fields in the message"},
		{"credentials", failed(v1alpha1.ErrorUnauthorized), "rights"},
		{"too slow", failed(v1alpha1.ErrorTimeout), "items tree"},
		{"a bug", failed(v1alpha1.ErrorInternalProblem), "log of the host"},
		{"anything else", failed(), "fix"},
		{"before its Target", after(underWay, fails(gone, time.Minute)), "create the missing object"},
		{"a deletion has a way out", after(deleting, fails(failure(), 2*time.Minute)), "delete-without-uninstall=true"},
		{"a deletion that lacks its Target", after(deleting, fails(gone, 2*time.Minute)), "goes on by itself"},
	} {
		if got := inspect.Advice(tc.item); (got != "") != (tc.want != "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: expected advice with %q, but found %q", tc.reason, tc.want, got)
		}
	}
}
