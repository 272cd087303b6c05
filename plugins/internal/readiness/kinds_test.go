package readiness_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// kindCase is an object in a state, and what it lacks: a part of the message, if anything.
type kindCase struct {
	reason       string
	spec, status string
	metadata     string
	// manifest is the spec that is wanted, empty for the one that is there; patch is that of patchAfterDeployment.
	manifest, patch string
	waiting, failed string
}

// Rule (manifest.md#readiness): Readiness checks look at each kind as Kubernetes does.
// Rule (manifest.md#readiness, /apps/v1_Deployment/ready): A Deployment is ready with all replicas updated and
// available.
// Rule (manifest.md#readiness, /apps/v1_ReplicaSet/ready): A ReplicaSet is ready with all replicas available.
// Rule (manifest.md#readiness, /v1_ReplicationController/ready): A ReplicationController is ready with all replicas
// available.
// Rule (manifest.md#readiness, /apps/v1_StatefulSet/ready): A StatefulSet is ready with all replicas updated and
// available.
// Rule (manifest.md#readiness, /apps/v1_DaemonSet/ready): A DaemonSet is ready with all replicas updated and available.
// Rule (manifest.md#readiness, /apps/v1_Deployment/paused): A Deployment paused by its manifest is ready.
// Rule (manifest.md#readiness, /apps/v1_Deployment/deadline): A Deployment with an exceeded progress deadline fails the
// job.
// Rule (manifest.md#readiness, /v1_Pod/ready): A Pod is ready if its condition says so.
// Rule (manifest.md#readiness, /v1_Pod/completed): A succeeded Pod is ready.
// Rule (manifest.md#readiness, /v1_Pod/failed_with_a_reason): A failed Pod fails the job.
// Rule (manifest.md#readiness, /v1_Pod/no_image): A failing image pull is a temporary problem.
// Rule (manifest.md#readiness, /batch/v1_Job/complete): A Job is ready when it has completed.
// Rule (manifest.md#readiness, /batch/v1_Job/suspended): A Job suspended by its manifest is ready.
// Rule (manifest.md#readiness, /batch/v1_Job/failed): A failed Job fails the job.
// Rule (manifest.md#readiness, /apiextensions.k8s.io/v1_CustomResourceDefinition/established): A
// CustomResourceDefinition is ready when it is established.
// Rule (manifest.md#readiness, /v1_PersistentVolumeClaim/bound): A claim is ready when it is bound.
// Rule (manifest.md#readiness, /v1_PersistentVolumeClaim/lost): A lost claim fails the job.
// Rule (manifest.md#readiness, /v1_Service/no_address): A Service of type LoadBalancer waits for its address.
// Rule (manifest.md#readiness, /v1_Service/cluster): Any other Service is ready at once.
// Rule (manifest.md#readiness, /example.org/v1_Thing/not_ready): Any other kind waits while its condition `Ready` is
// false.
// Rule (manifest.md#readiness, /example.org/v1_Thing/reconciling): Any other kind waits while its condition
// `Reconciling` is true.
// Rule (manifest.md#readiness, /example.org/v1_Thing/stalled): Any other kind fails the job with the condition
// `Stalled`.
// Rule (manifest.md#readiness, /example.org/v1_Thing/no_status): Any other kind without a status is ready at once.
func TestKinds(t *testing.T) {
	t.Parallel()
	for kind, cases := range map[string]map[string]kindCase{
		"apps/v1 Deployment":       deployments,
		"apps/v1 ReplicaSet":       replicaSets,
		"v1 ReplicationController": replicaSets,
		"apps/v1 StatefulSet":      statefulSets,
		"apps/v1 DaemonSet":        daemonSets,
		"v1 Pod":                   pods,
		"batch/v1 Job":             jobs,
		"v1 Service":               services,
		"v1 PersistentVolumeClaim": claims,
		"apiextensions.k8s.io/v1 CustomResourceDefinition": definitions,
		"example.org/v1 Thing":                             things,
		"v1 ConfigMap": {
			"any":           {reason: "a kind without a status is ready"},
			"being deleted": {reason: "what is being deleted is not what was wanted", metadata: `{"deletionTimestamp":"2020-01-01T00:00:00Z"}`, waiting: "it is being deleted"},
			"held": {
				reason:   "it says what holds it",
				metadata: `{"deletionTimestamp":"2020-01-01T00:00:00Z","finalizers":["example.org/a","example.org/b"]}`,
				waiting:  "held by the finalizers example.org/a, example.org/b",
			},
		},
	} {
		for name, c := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				c.check(t, kind)
			})
		}
	}
}

func (c kindCase) check(t *testing.T, kind string) {
	t.Helper()
	o := newObject(t, kind, c.metadata, c.spec, c.status)
	manifest, patch := newObject(t, kind, "", cmp.Or(c.manifest, c.spec), ""), newObject(t, kind, "", c.patch, "")
	v, err := readiness.Checks{}.Run(t.Context(), []readiness.Object{{Live: o, Wanted: []map[string]any{manifest.Object, patch.Object}}}, nil, noTarget, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for what, texts := range map[string]struct {
		want string
		got  []string
	}{"waiting": {c.waiting, v.Waiting}, "failed": {c.failed, v.Failed}} {
		if (texts.want != "") != (len(texts.got) == 1) || !strings.Contains(strings.Join(texts.got, ""), texts.want) {
			t.Errorf("%s: %s: expected %q, but found %q", c.reason, what, texts.want, texts.got)
		}
		for _, text := range texts.got {
			if !strings.HasPrefix(text, o.GetKind()+" n/a: ") || strings.HasSuffix(text, " ") {
				t.Errorf("expected that %q names the object, and says what there is to say", text)
			}
		}
	}
}

// asWanted returns objects that are as they are wanted.
func asWanted(live ...*unstructured.Unstructured) []readiness.Object {
	objects := make([]readiness.Object, 0, len(live))
	for _, o := range live {
		objects = append(objects, readiness.Object{Live: o, Wanted: []map[string]any{o.Object}})
	}
	return objects
}

var errNoTarget = errors.New("there is no target")

func noTarget(context.Context, string) (*target.Client, error) { return nil, errNoTarget }

// newObject returns an object of generation 2, whose parts are JSON; empty ones are left out.
func newObject(t *testing.T, kind, metadata, spec, status string) *unstructured.Unstructured {
	t.Helper()
	apiVersion, kind, _ := strings.Cut(kind, " ")
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{}}}
	for part, document := range map[string]string{"metadata": metadata, "spec": spec, "status": status} {
		if document == "" {
			continue
		}
		var value any
		if err := utiljson.Unmarshal([]byte(document), &value); err != nil {
			t.Fatalf("%s: %v", part, err)
		}
		o.Object[part] = value
	}
	o.SetName("a")
	o.SetNamespace("n")
	o.SetGeneration(2)
	return o
}

var deployments = map[string]kindCase{
	"new":   {reason: "it waits for its replicas", spec: `{"replicas":3}`, waiting: "Replicas: 0/3"},
	"ready": {reason: "all replicas are there", spec: `{"replicas":3}`, status: `{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":3}`},
	"outdated status": {
		reason: "what was seen before the last change does not count", spec: `{"replicas":1}`,
		status: `{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1}`, waiting: "has not seen the last change yet (generation 2, but seen 1)",
	},
	"old replicas": {
		reason: "replicas must be up to date", spec: `{"replicas":3}`,
		status: `{"observedGeneration":2,"replicas":3,"updatedReplicas":1,"availableReplicas":3}`, waiting: "Updated: 1/3",
	},
	"unavailable": {
		reason: "replicas must be available", spec: `{"replicas":3}`,
		status: `{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":1}`, waiting: "Available: 1/3",
	},
	"surplus": {
		reason: "the old ones must be gone", spec: `{"replicas":1}`,
		status: `{"observedGeneration":2,"replicas":2,"updatedReplicas":1,"availableReplicas":2}`, waiting: "Pending termination: 1",
	},
	"default": {reason: "one replica is wanted by default", status: `{"observedGeneration":2}`, waiting: "Replicas: 0/1"},
	"none":    {reason: "none may be wanted", spec: `{"replicas":0}`, status: `{"observedGeneration":2}`},
	"none unseen": {
		reason: "but somebody must have seen it", spec: `{"replicas":0}`, waiting: "has not seen it yet",
	},
	"quota": {
		reason: "a user wants to know why there are no Pods", spec: `{"replicas":1}`,
		status:  `{"observedGeneration":2,"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"exceeded quota"}]}`,
		waiting: "Replicas: 0/1, FailedCreate: exceeded quota",
	},
	"deadline": {
		reason: "one whose deadline is over has given up", spec: `{"replicas":1}`,
		status: `{"observedGeneration":2,"replicas":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]}`,
		failed: "progress deadline exceeded (0/1 available): timed out",
	},
	"old deadline": {
		reason: "an old deadline does not count for a new generation", spec: `{"replicas":1}`,
		status:  `{"observedGeneration":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`,
		waiting: "has not seen the last change",
	},
	"paused": {reason: "a paused one waits for people", spec: `{"replicas":3,"paused":true}`, status: `{"observedGeneration":2}`},
	"paused by another": {
		reason: "one that its manifest does not pause is not what is wanted", spec: `{"replicas":3,"paused":true}`, manifest: `{"replicas":3}`,
		status:  `{"observedGeneration":2,"replicas":3,"availableReplicas":3,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}`,
		waiting: "it is paused, which its manifest does not say; resume it (Updated: 0/3)",
	},
	"paused when done": {
		reason: "a pause that keeps nothing up does not matter", spec: `{"replicas":3,"paused":true}`, manifest: `{"replicas":3,"paused":false}`,
		status: `{"observedGeneration":2,"replicas":3,"updatedReplicas":3,"availableReplicas":3}`,
	},
	"resumed by another": {reason: "one that runs is judged as such", spec: `{"replicas":3}`, manifest: `{"paused":true}`, waiting: "Replicas: 0/3"},
	"paused by its patch": {
		reason: "the user wants it paused", spec: `{"replicas":3,"paused":true}`, manifest: `{"replicas":3}`, patch: `{"paused":true}`, status: `{"observedGeneration":2}`,
	},
	"paused unseen": {reason: "once it was seen", spec: `{"paused":true}`, waiting: "has not seen it yet"},
	"nonsense":      {reason: "a status that nobody can read is not taken for a good one", status: `"all is well"`, waiting: "Replicas: 0/1"},
}

var replicaSets = map[string]kindCase{
	"new":   {reason: "it waits for its replicas", spec: `{"replicas":2}`, waiting: "Replicas: 0/2"},
	"ready": {reason: "all replicas are there", spec: `{"replicas":2}`, status: `{"observedGeneration":2,"replicas":2,"readyReplicas":2,"availableReplicas":2}`},
	"outdated status": {
		reason: "what was seen before the last change does not count", spec: `{"replicas":2}`,
		status: `{"observedGeneration":1,"replicas":2,"availableReplicas":2}`, waiting: "has not seen the last change",
	},
	"unavailable": {reason: "replicas must be available", spec: `{"replicas":2}`, status: `{"observedGeneration":2,"replicas":2}`, waiting: "Available: 0/2"},
	"surplus": {
		reason: "more than wanted are too many", spec: `{"replicas":0}`, status: `{"observedGeneration":2,"replicas":2}`, waiting: "Pending termination: 2",
	},
	"none unseen": {reason: "somebody must have seen it", spec: `{"replicas":0}`, waiting: "has not seen it yet"},
	"quota": {
		reason: "a user wants to know why there are no Pods",
		status: `{"observedGeneration":2,"conditions":[{"type":"ReplicaFailure","status":"True","message":"no"}]}`, waiting: "Replicas: 0/1, no",
	},
}

var statefulSets = map[string]kindCase{
	"new": {reason: "it waits for its replicas", spec: `{"replicas":2}`, waiting: "Replicas: 0/2"},
	"ready": {
		reason: "all replicas are there", spec: `{"replicas":2,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}}}`,
		status: `{"observedGeneration":2,"replicas":2,"readyReplicas":2,"updatedReplicas":2,"currentRevision":"a","updateRevision":"a"}`,
	},
	"outdated status": {
		reason: "what was seen before the last change does not count", spec: `{"replicas":1}`,
		status: `{"observedGeneration":1,"replicas":1,"readyReplicas":1}`, waiting: "has not seen the last change",
	},
	"not ready": {reason: "replicas must be ready", spec: `{"replicas":2}`, status: `{"observedGeneration":2,"replicas":2,"readyReplicas":1}`, waiting: "Ready: 1/2"},
	"not available": {
		reason: "and for as long as is asked for", spec: `{"replicas":2,"minReadySeconds":9}`,
		status: `{"observedGeneration":2,"replicas":2,"readyReplicas":2,"availableReplicas":1}`, waiting: "Available: 1/2",
	},
	"rolling": {
		reason: "replicas must be up to date", spec: `{"replicas":3}`,
		status:  `{"observedGeneration":2,"replicas":3,"readyReplicas":3,"updatedReplicas":1,"currentRevision":"a","updateRevision":"b"}`,
		waiting: "Updated: 1/3",
	},
	"partition": {
		reason: "but for those below the partition", spec: `{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":2}}}`,
		status: `{"observedGeneration":2,"replicas":3,"readyReplicas":3,"updatedReplicas":1,"currentRevision":"a","updateRevision":"b"}`,
	},
	"partition under way": {
		reason: "those from the partition on count", spec: `{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":1}}}`,
		status:  `{"observedGeneration":2,"replicas":3,"readyReplicas":3,"updatedReplicas":1,"currentRevision":"a","updateRevision":"b"}`,
		waiting: "Updated: 1/2",
	},
	"on delete": {
		reason: "people delete what is out of date", spec: `{"replicas":3,"updateStrategy":{"type":"OnDelete"}}`,
		status: `{"observedGeneration":2,"replicas":3,"readyReplicas":3,"currentRevision":"a","updateRevision":"b"}`,
	},
	"on delete new": {
		reason: "but replicas must be ready all the same", spec: `{"replicas":3,"updateStrategy":{"type":"OnDelete"}}`,
		status: `{"observedGeneration":2,"replicas":3}`, waiting: "Ready: 0/3",
	},
	"surplus":     {reason: "more than wanted are too many", spec: `{"replicas":0}`, status: `{"observedGeneration":2,"replicas":1}`, waiting: "Pending termination: 1"},
	"none unseen": {reason: "somebody must have seen it", spec: `{"replicas":0}`, waiting: "has not seen it yet"},
}

var daemonSets = map[string]kindCase{
	"new": {reason: "nobody knows how many are wanted", waiting: "has not seen it yet"},
	"ready": {
		reason: "all replicas are there", status: `{"observedGeneration":2,"desiredNumberScheduled":2,"currentNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":2}`,
	},
	"no nodes": {reason: "none may be wanted", status: `{"observedGeneration":2,"desiredNumberScheduled":0}`},
	"outdated status": {
		reason: "what was seen before the last change does not count",
		status: `{"observedGeneration":1,"desiredNumberScheduled":0}`, waiting: "has not seen the last change",
	},
	"not scheduled": {reason: "each node needs one", status: `{"observedGeneration":2,"desiredNumberScheduled":2,"currentNumberScheduled":1}`, waiting: "Scheduled: 1/2"},
	"rolling": {
		reason: "that is up to date", status: `{"observedGeneration":2,"desiredNumberScheduled":2,"currentNumberScheduled":2,"updatedNumberScheduled":1,"numberAvailable":2}`,
		waiting: "Updated: 1/2",
	},
	"unavailable": {
		reason: "and available, whatever may be unavailable during an update",
		spec:   `{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}}`,
		status: `{"observedGeneration":2,"desiredNumberScheduled":1,"currentNumberScheduled":1,"updatedNumberScheduled":1}`, waiting: "Available: 0/1",
	},
	"on delete": {
		reason: "people delete what is out of date", spec: `{"updateStrategy":{"type":"OnDelete"}}`,
		status: `{"observedGeneration":2,"desiredNumberScheduled":2,"currentNumberScheduled":2,"numberAvailable":2}`,
	},
}

var pods = map[string]kindCase{
	"new":       {reason: "nobody has seen it", waiting: "no node has seen it yet"},
	"ready":     {reason: "it is ready", status: `{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`},
	"completed": {reason: "its work is done", status: `{"phase":"Succeeded","conditions":[{"type":"Ready","status":"False","reason":"PodCompleted"}]}`},
	"evicted": {
		reason: "a Pod that has failed stays so", status: `{"phase":"Failed","reason":"Evicted","message":"low on memory"}`, failed: "the Pod has failed, Evicted: low on memory",
	},
	"failed with a reason": {reason: "it says no more", status: `{"phase":"Failed","reason":"Evicted"}`, failed: "the Pod has failed, Evicted"},
	"failed with a message": {
		reason: "nor does this one", status: `{"phase":"Failed","message":"low on memory"}`, failed: "the Pod has failed, low on memory",
	},
	"exit code": {
		reason: "a user wants to know how", status: `{"phase":"Failed","containerStatuses":[{"name":"main","state":{"terminated":{"exitCode":3}}}]}`,
		failed: "container main has ended with exit code 3",
	},
	"unschedulable": {
		reason:  "a node may come",
		status:  `{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available"}]}`,
		waiting: "it is not scheduled, Unschedulable: 0/1 nodes are available",
	},
	"no image": {
		reason:  "an image may come",
		status:  `{"phase":"Pending","containerStatuses":[{"name":"main","state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}`,
		waiting: "it is not ready, container main: ImagePullBackOff: no such image",
	},
	"crash loop": {
		reason: "what a container crashes over may come",
		status: `{"phase":"Running","conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady","message":"unready: [main]"}],
			"initContainerStatuses":[{"name":"init","state":{"terminated":{"exitCode":0}}}],"containerStatuses":[{"name":"main","state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}`,
		waiting: "it is not ready, container main: CrashLoopBackOff; ContainersNotReady: unready: [main]",
	},
	"nonsense": {
		reason: "nothing that a status may hold is a reason to panic", status: `{"phase":"Running","conditions":["x"],"containerStatuses":["x",{"name":1,"state":2}]}`,
		waiting: "it is not ready",
	},
}

var jobs = map[string]kindCase{
	"new":      {reason: "it has not begun", waiting: "the Job has not started"},
	"running":  {reason: "a Job is there to be done", status: `{"startTime":"2020-01-01T00:00:00Z","active":1,"failed":2}`, waiting: "the Job is running (1 active, 0 succeeded, 2 failed)"},
	"complete": {reason: "it is done", status: `{"startTime":"2020-01-01T00:00:00Z","conditions":[{"type":"Complete","status":"True"}]}`},
	"suspended by another": {
		reason: "one that its manifest does not suspend has yet to run", spec: `{"suspend":true}`, manifest: `{"suspend":false}`,
		status:  `{"startTime":"2020-01-01T00:00:00Z","conditions":[{"type":"Suspended","status":"True"}]}`,
		waiting: "the Job is suspended, which its manifest does not say; resume it",
	},
	"suspended when done": {
		reason: "one that is complete has run", spec: `{"suspend":true}`, manifest: `{}`, status: `{"conditions":[{"type":"Complete","status":"True"}]}`,
	},
	"suspended": {reason: "a suspended one waits for people", spec: `{"suspend":true}`, status: `{"conditions":[{"type":"Suspended","status":"True"}]}`},
	"failed": {
		reason: "a Job that has given up is not waited for",
		status: `{"failed":3,"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"too often"}]}`,
		failed: "the Job has failed, BackoffLimitExceeded: too often",
	},
	"given up": {
		reason: "it is given up before its Pods are counted",
		status: `{"active":1,"conditions":[{"type":"FailureTarget","status":"True","reason":"BackoffLimitExceeded","message":"too often"}]}`,
		failed: "the Job has failed, BackoffLimitExceeded: too often",
	},
	"failed and being deleted": {
		reason: "whoever looks later does not see it any more", metadata: `{"deletionTimestamp":"2020-01-01T00:00:00Z"}`,
		status: `{"conditions":[{"type":"Failed","status":"True","message":"too often"}]}`, failed: "the Job has failed, too often",
	},
	"not failed": {reason: "a condition may say that it does not hold", status: `{"conditions":[{"type":"Failed","status":"False"}]}`, waiting: "not started"},
}

var services = map[string]kindCase{
	"cluster":     {reason: "there is nothing to wait for", spec: `{"type":"ClusterIP"}`},
	"default":     {reason: "by default, too"},
	"external":    {reason: "a name is a name", spec: `{"type":"ExternalName"}`},
	"no address":  {reason: "nobody can reach it", spec: `{"type":"LoadBalancer","clusterIP":"10.0.0.1"}`, status: `{"loadBalancer":{}}`, waiting: "has no address yet"},
	"an address":  {reason: "it can be reached", spec: `{"type":"LoadBalancer"}`, status: `{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}`},
	"own address": {reason: "somebody has given it one", spec: `{"type":"LoadBalancer","externalIPs":["1.2.3.4"]}`},
}

var claims = map[string]kindCase{
	"new":   {reason: "nobody has seen it", waiting: "it is not bound yet"},
	"bound": {reason: "it is bound", status: `{"phase":"Bound"}`},
	"lost":  {reason: "its volume does not come back", spec: `{"volumeName":"v"}`, status: `{"phase":"Lost"}`, failed: "it has lost its volume v"},
	"pending": {
		reason: "without a class there is nothing to look up", status: `{"phase":"Pending"}`, waiting: "it is not bound yet",
	},
	"unknown class": {
		reason: "whoever cannot look the class up is told so", spec: `{"storageClassName":"fast"}`, status: `{"phase":"Pending"}`,
		waiting: "which cannot be told: there is no target",
	},
	"consumed": {
		reason: "once a Pod asks for it there is something to wait for", metadata: `{"annotations":{"volume.kubernetes.io/selected-node":"n"}}`,
		spec: `{"storageClassName":"fast"}`, status: `{"phase":"Pending"}`, waiting: "it is not bound yet",
	},
}

var definitions = map[string]kindCase{
	"new":         {reason: "it is not established", waiting: "Install in progress"},
	"established": {reason: "it is", status: `{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}`},
	"taken": {
		reason: "its names are taken", status: `{"conditions":[{"type":"NamesAccepted","status":"False","reason":"PluralConflict","message":"things is taken"}]}`,
		failed: "things is taken",
	},
	"unreadable": {reason: "a status that nobody can read is not taken for a good one", status: `{"conditions":"nonsense"}`, waiting: "cannot be read"},
}

var things = map[string]kindCase{
	"no status":   {reason: "there is nothing to wait for"},
	"ready":       {reason: "it says so", status: `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","observedGeneration":2}]}`},
	"not ready":   {reason: "it says so", status: `{"conditions":[{"type":"Ready","status":"False","reason":"NotYet","message":"because"}]}`, waiting: "because"},
	"unknown":     {reason: "nobody knows", status: `{"conditions":[{"type":"Ready","status":"Unknown","reason":"NotYet"}]}`, waiting: "NotYet"},
	"speechless":  {reason: "it says no more", status: `{"conditions":[{"type":"Ready","status":"False"}]}`, waiting: "does not say what it lacks"},
	"reconciling": {reason: "it is on its way", status: `{"conditions":[{"type":"Reconciling","status":"True","message":"at work"}]}`, waiting: "at work"},
	"stalled":     {reason: "it has given up", status: `{"conditions":[{"type":"Stalled","status":"True","message":"no way"}]}`, failed: "no way"},
	"outdated": {
		reason: "a status of an older generation does not count",
		status: `{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True"}]}`, waiting: "generation",
	},
	"outdated condition": {
		reason: "nor does a condition of one", status: `{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}]}`,
		waiting: "its condition Ready is of generation 1, and not yet of generation 2",
	},
	"outdated failure": {
		reason: "nor does a failure", status: `{"conditions":[{"type":"Stalled","status":"True","observedGeneration":1}]}`, waiting: "its condition Stalled is of generation 1",
	},
	"a text":             {reason: "a status may be of any shape", status: `"fine"`},
	"a map":              {reason: "so may conditions", status: `{"conditions":{"Ready":"yes"}}`},
	"odd and not ready":  {reason: "what can be read counts", status: `{"conditions":[{"type":"Ready","status":"False","reason":7,"message":"because"}]}`, waiting: "because"},
	"odd but ready":      {reason: "either way", status: `{"conditions":[{"type":"Ready","status":"True","reason":7}]}`},
	"a long explanation": {reason: "messages have an end", status: `{"conditions":[{"type":"Ready","status":"False","message":"` + strings.Repeat("é", 1000) + `"}]}`, waiting: "é…"},
}

// Rule (manifest.md#readiness): `disableDefault` disables the checks.
func TestDisabledDefaultChecks(t *testing.T) {
	t.Parallel()
	o := newObject(t, "apps/v1 Deployment", "", "", "")
	v, err := parse(t, `{"disableDefault":true}`).Run(t.Context(), asWanted(o), nil, noTarget, time.Now())
	if err != nil || len(v.Waiting)+len(v.Failed) > 0 {
		t.Errorf("expected no checks, but found %v and %v", v, err)
	}
}

// FuzzKinds: no object makes a check panic, whatever its kind.
func FuzzKinds(f *testing.F) {
	kinds := []string{
		"apps/v1 Deployment", "apps/v1 ReplicaSet", "v1 ReplicationController", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "v1 Pod", "batch/v1 Job", "v1 Service",
		"v1 PersistentVolumeClaim", "apiextensions.k8s.io/v1 CustomResourceDefinition", "policy/v1 PodDisruptionBudget", "example.org/v1 Thing",
	}
	for i, cases := range []map[string]kindCase{
		deployments, replicaSets, replicaSets, statefulSets, daemonSets, pods, jobs, services, claims, definitions, things, things,
	} {
		for _, c := range cases {
			f.Add(i, `{"spec":`+c.spec+`,"status":`+c.status+`}`)
			f.Add(i, `{"metadata":{"deletionTimestamp":7,"generation":"x","finalizers":{}},"status":`+c.status+`}`)
		}
	}
	f.Fuzz(func(t *testing.T, i int, document string) {
		o := &unstructured.Unstructured{}
		if utiljson.Unmarshal([]byte(document), &o.Object) != nil || o.Object == nil {
			return
		}
		apiVersion, kind, _ := strings.Cut(kinds[(i%len(kinds)+len(kinds))%len(kinds)], " ")
		o.SetAPIVersion(apiVersion)
		o.SetKind(kind)
		v, err := readiness.Checks{}.Run(t.Context(), asWanted(o), nil, noTarget, time.Now())
		if err != nil || len(v.Waiting)+len(v.Failed) > 1 {
			t.Errorf("expected one verdict, but found %v and %v", v, err)
		}
	})
}
