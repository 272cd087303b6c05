package readiness_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// kindFile has the cases of kinds with the same rule, of generation 2.
type kindFile struct {
	Kinds []string   `json:"kinds"` // each as apiVersion and kind
	Cases []kindCase `json:"cases"`
}

// kindCase is an object in a state, with a part of the message about its lack, if any.
type kindCase struct {
	Name     string `json:"name"`
	Reason   string `json:"reason"`
	Metadata any    `json:"metadata"`
	Spec     any    `json:"spec"`
	Status   any    `json:"status"`
	// Manifest is the wanted spec, by default the live one; Patch is that of patchAfterDeployment.
	Manifest any    `json:"manifest"`
	Patch    any    `json:"patch"`
	Waiting  string `json:"waiting"`
	Failed   string `json:"failed"`
}

func readKinds(t testing.TB) (files []kindFile) {
	t.Helper()
	paths, err := filepath.Glob("testdata/kinds/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found no cases, and %v", err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file kindFile
		if content, err = yaml.YAMLToJSONStrict(content); err == nil {
			var strict []error
			strict, err = kjson.UnmarshalStrict(content, &file)
			err = errors.Join(append(strict, err)...)
		}
		if err != nil || len(file.Kinds) == 0 || len(file.Cases) == 0 {
			t.Fatalf("%s: found %d kinds with %d cases, and %v", path, len(file.Kinds), len(file.Cases), err)
		}
		files = append(files, file)
	}
	return files
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
	for _, file := range readKinds(t) {
		for _, kind := range file.Kinds {
			for _, c := range file.Cases {
				t.Run(kind+"/"+c.Name, func(t *testing.T) {
					t.Parallel()
					c.check(t, kind)
				})
			}
		}
	}
}

func (c kindCase) check(t *testing.T, kind string) {
	t.Helper()
	o := newObject(kind, map[string]any{"metadata": c.Metadata, "spec": c.Spec, "status": c.Status})
	manifest := c.Manifest
	if manifest == nil {
		manifest = c.Spec
	}
	v, err := readiness.Checks{}.Run(t.Context(), []readiness.Object{{
		Live: o, Wanted: []map[string]any{{"spec": manifest}, {"spec": c.Patch}},
	}}, nil, noTarget, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for what, texts := range map[string]struct {
		want string
		got  []string
	}{"waiting": {c.Waiting, v.Waiting}, "failed": {c.Failed, v.Failed}} {
		if (texts.want != "") != (len(texts.got) == 1) || !strings.Contains(strings.Join(texts.got, ""), texts.want) {
			t.Errorf("%s: %s: expected %q, but found %q", c.Reason, what, texts.want, texts.got)
		}
		for _, text := range texts.got {
			if !strings.HasPrefix(text, o.GetKind()+" n/a: ") || strings.HasSuffix(text, " ") {
				t.Errorf("expected the name of the object and a reason, but found %q", text)
			}
		}
	}
}

// TestLongMessage: the messages of controllers are bounded.
func TestLongMessage(t *testing.T) {
	t.Parallel()
	condition := map[string]any{"type": "Ready", "status": "False", "message": strings.Repeat("é", 1000)}
	c := kindCase{Status: map[string]any{"conditions": []any{condition}}, Waiting: "é…"}
	c.check(t, "example.org/v1 Thing")
}

// asWanted returns objects as they are wanted.
func asWanted(live ...*unstructured.Unstructured) []readiness.Object {
	objects := make([]readiness.Object, 0, len(live))
	for _, o := range live {
		objects = append(objects, readiness.Object{Live: o, Wanted: []map[string]any{o.Object}})
	}
	return objects
}

var errNoTarget = errors.New("there is no target")

func noTarget(context.Context, string) (*target.Client, error) { return nil, errNoTarget }

// newObject returns an object of generation 2 with these parts; empty ones are left out.
func newObject(kind string, parts map[string]any) *unstructured.Unstructured {
	apiVersion, kind, _ := strings.Cut(kind, " ")
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	for part, value := range parts {
		if value != nil {
			o.Object[part] = value
		}
	}
	metadata := map[string]any{} // a copy: a case may run for several kinds at once
	if given, ok := o.Object["metadata"].(map[string]any); ok {
		maps.Copy(metadata, given)
	}
	o.Object["metadata"] = metadata
	o.SetName("a")
	o.SetNamespace("n")
	o.SetGeneration(2)
	return o
}

// Rule (manifest.md#readiness): `disableDefault` disables the checks.
func TestDisabledDefaultChecks(t *testing.T) {
	t.Parallel()
	o := newObject("apps/v1 Deployment", nil)
	v, err := parse(t, `{"disableDefault":true}`).Run(t.Context(), asWanted(o), nil, noTarget, time.Now())
	if err != nil || len(v.Waiting)+len(v.Failed) > 0 {
		t.Errorf("expected no checks, but found %v and %v", v, err)
	}
}

// FuzzKinds: no object makes a check panic, whatever its kind.
func FuzzKinds(f *testing.F) {
	kinds := []string{"policy/v1 PodDisruptionBudget"}
	for _, file := range readKinds(f) {
		for _, kind := range file.Kinds {
			kinds = append(kinds, kind)
			for _, c := range file.Cases {
				for _, document := range []map[string]any{
					{"spec": c.Spec, "status": c.Status},
					{"status": c.Status, "metadata": map[string]any{
						"deletionTimestamp": 7, "generation": "x", "finalizers": map[string]any{},
					}},
				} {
					content, err := utiljson.Marshal(document)
					if err != nil {
						f.Fatal(err)
					}
					f.Add(len(kinds)-1, string(content))
				}
			}
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
