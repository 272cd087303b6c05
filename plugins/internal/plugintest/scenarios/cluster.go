package scenarios

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// kinds are the resources in scripts.
var kinds = []plugintest.Resource{
	plugintest.ConfigMaps, plugintest.Secrets, plugintest.Services, plugintest.ServiceAccounts, plugintest.Namespaces,
	plugintest.Deployments, plugintest.Jobs, plugintest.ClusterRoles, plugintest.CRDs, plugintest.Webhooks,
}

func (s *state) resource(name string) plugintest.Resource {
	i := slices.IndexFunc(kinds, func(r plugintest.Resource) bool { return r.Resource == name })
	if i < 0 {
		s.script.Fatalf("there is no kind of objects %q", name)
	}
	return kinds[i]
}

// resourceOf returns the resource of a kind in the singular.
func (s *state) resourceOf(kind string) plugintest.Resource {
	return s.resource(strings.ToLower(kind) + "s")
}

func (s *state) create(args []string) string {
	s.want(args, 1, 1)
	for _, o := range s.readObjects(args[0]) {
		s.host.Create(s.resourceOf(o.GetKind()), o.Object)
	}
	return ""
}

func (s *state) patch(args []string) string {
	s.want(args, 3, 4)
	s.host.Patch(s.resource(args[0]), args[1], args[2], args[3:]...)
	return ""
}

// own has an object own another one of its kind.
func (s *state) own(args []string) string {
	s.want(args, 3, 3)
	resource := s.resource(args[0])
	owner := s.host.MustGet(resource, args[1])
	s.host.Patch(resource, args[2], fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q}]}}`,
		owner.GetAPIVersion(), owner.GetKind(), owner.GetName(), owner.GetUID()))
	return ""
}

// remove deletes an object as its controller does: with its dependents in the background.
func (s *state) remove(args []string) string {
	s.want(args, 2, 2)
	background := metav1.DeletePropagationBackground
	s.script.Check(s.host.Objects(s.resource(args[0])).
		Delete(s.host.Context(), args[1], metav1.DeleteOptions{PropagationPolicy: &background}))
	return ""
}

func (s *state) ready(args []string) string {
	s.want(args, 1, 1)
	s.host.Ready(args[0])
	return ""
}

// complete gives a Job the status of a complete or a failed one.
func (s *state) complete(args []string) string {
	s.want(args, 1, 2)
	status := `{"status":{"startTime":"2026-01-01T00:00:00Z","active":0,"succeeded":1,
		"completionTime":"2026-01-01T00:01:00Z","conditions":[
		{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}`
	if len(args) > 1 && args[1] == "failed" {
		status = `{"status":{"startTime":"2026-01-01T00:00:00Z","conditions":[
			{"type":"FailureTarget","status":"True","reason":"BackoffLimitExceeded"},
			{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"all attempts failed"}]}}`
	}
	s.host.Patch(plugintest.Jobs, args[0], status, "status")
	return ""
}

func (s *state) get(args []string) string {
	s.want(args, 2, 3)
	o := s.host.Get(s.resource(args[0]), args[1])
	switch {
	case o == nil:
		return "none\n"
	case len(args) == 2:
		return "exists\n"
	default:
		return fieldOf(o, args[2])
	}
}

func (s *state) names(args []string) string {
	s.want(args, 1, 1)
	return lines(s.host.Names(s.resource(args[0]), ""))
}

// revisions are those of Helm, as in the labels of their Secrets.
func (s *state) revisions(args []string) string {
	s.want(args, 0, 0)
	list, err := s.host.Objects(plugintest.Secrets).List(s.host.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	s.script.Check(err)
	var all []string
	for _, o := range list.Items {
		all = append(all, o.GetLabels()["version"]+" "+o.GetLabels()["status"])
	}
	return lines(all)
}

func (s *state) inventory(args []string) string {
	s.want(args, 0, 0)
	var names []string
	for _, m := range s.host.Managed(s.status()) {
		names = append(names, m.Kind+" "+m.Name)
	}
	return lines(names)
}

func (s *state) drift(args []string) string {
	s.want(args, 0, 0)
	var status struct {
		Drift *managedresource.Drift `json:"drift"`
	}
	if content := s.status(); content != nil {
		s.script.Check(json.Unmarshal(content, &status))
	}
	if status.Drift == nil {
		return "none\n"
	}
	if status.Drift.JobID != s.item.Status.JobID {
		s.script.Fatalf("the drift is of job %s, but the last one is %s", status.Drift.JobID, s.item.Status.JobID)
	}
	var found []string
	for _, o := range status.Drift.Objects {
		what := strings.Join(o.Fields, ", ")
		if o.Missing {
			what = "missing"
		}
		found = append(found, o.Resource.Kind+" "+o.Resource.Name+": "+what)
	}
	return lines(found)
}

// status returns the provider status; nil if there is none.
func (s *state) status() []byte {
	if s.item.Status.ProviderStatus == nil {
		return nil
	}
	return s.item.Status.ProviderStatus.Raw
}
