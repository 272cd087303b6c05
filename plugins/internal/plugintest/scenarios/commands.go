package scenarios

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// all are the commands. What they return is printed.
var all = map[string]func(s *state, args []string) string{
	"annotate":     (*state).annotate,
	"complete":     (*state).complete,
	"config":       (*state).config,
	"configure":    (*state).configure,
	"create":       (*state).create,
	"delete-item":  (*state).deleteItem,
	"diff":         (*state).diff,
	"drift":        (*state).drift,
	"fail":         (*state).fail,
	"forget":       (*state).forget,
	"get":          (*state).get,
	"health":       (*state).health,
	"installation": (*state).installation,
	"inventory":    (*state).inventory,
	"item":         (*state).otherItem,
	"job":          (*state).job,
	"move-away":    (*state).moveAway,
	"move-back":    (*state).moveBack,
	"names":        (*state).names,
	"objects":      (*state).objects,
	"own":          (*state).own,
	"patch":        (*state).patch,
	"ready":        (*state).ready,
	"remove":       (*state).remove,
	"requests":     (*state).requests,
	"restart":      (*state).restart,
	"retry":        (*state).retry,
	"revisions":    (*state).revisions,
	"target":       (*state).target,
	"writes":       (*state).writes,
}

func (s *state) otherItem(args []string) string {
	s.want(args, 1, 1)
	s.use(args[0])
	return ""
}

func (s *state) objects(args []string) string {
	s.want(args, 1, 2)
	configuration := s.mode.Configuration(s.host.Namespace, s.readObjects(args[0]))
	if len(args) > 1 {
		maps.Copy(configuration, s.readFields(args[1]))
	}
	s.host.SetConfig(s.item, configuration)
	return ""
}

func (s *state) config(args []string) string {
	s.want(args, 1, 1)
	if args[0] == "none" {
		s.item.Spec.Config = nil
		return ""
	}
	s.host.SetConfig(s.item, s.readFields(args[0]))
	return ""
}

func (s *state) annotate(args []string) string {
	s.want(args, 2, 2)
	metav1.SetMetaDataAnnotation(&s.item.ObjectMeta, args[0], args[1])
	return ""
}

func (s *state) forget(args []string) string {
	s.want(args, 0, 0)
	s.item.Status.ProviderStatus = nil
	return ""
}

// reasonUnderWay is the host's reason of hook.ConditionNextTry during a try.
const reasonUnderWay = "UnderWay"

func (s *state) job(args []string) string {
	first := hook.FirstJob(s.item)
	plugintest.NewJob(s.item)
	if i := slices.Index(args, "-try"); i >= 0 {
		args = slices.Delete(args, i, i+1)
		plugintest.Keep(s.item, &sdktest.Result{Conditions: []sdk.Condition{{
			Type: hook.ConditionNextTry, Status: landscaper.ConditionFalse,
			Reason: reasonUnderWay, Message: hook.TryMessage(s.item.Status.JobID, 2, first),
		}}})
	}
	if i := slices.Index(args, "-hook"); i >= 0 {
		args = slices.Delete(args, i, i+1)
		plugintest.Keep(s.item, &sdktest.Result{Conditions: []sdk.Condition{{
			Type: hook.ConditionStarted, Status: landscaper.ConditionTrue,
			Reason: hook.ReasonStartedByHook, Message: s.item.Status.JobID,
		}}})
	}
	return s.run(plugintest.Reconcile, args)
}

func (s *state) retry(args []string) string {
	operation := plugintest.Reconcile
	if s.item.Status.Phase == landscaper.DeployItemPhaseInitDelete {
		operation = plugintest.Delete
	}
	return s.run(operation, args)
}

func (s *state) deleteItem(args []string) string {
	s.item.Status.Phase = landscaper.DeployItemPhaseInitDelete
	return s.run(plugintest.Delete, args)
}

// run calls an operation once or until the end of the job, and leaves in the item what the host would.
func (s *state) run(operation plugintest.Operation, args []string) string {
	s.want(args, 0, 1)
	do := s.host.UntilDone
	if len(args) > 0 {
		if args[0] != "-once" {
			s.script.Fatalf("there is no option %s", args[0])
		}
		do = s.host.Do
	}
	result := do(operation, s.item)
	plugintest.Keep(s.item, result)
	if s.item.Status.Phase == landscaper.DeployItemPhaseInit {
		s.item.Status.Phase = landscaper.DeployItemPhaseProgressing
	}
	return describe(result)
}

// describe returns the result of a call as users see it.
func describe(result *sdktest.Result) string {
	var b strings.Builder
	switch {
	case result.Succeeded != nil:
		fmt.Fprintln(&b, "succeeded")
		for _, key := range slices.Sorted(maps.Keys(result.Succeeded.Exports)) {
			value, err := json.Marshal(result.Succeeded.Exports[key])
			if err != nil {
				value = []byte(err.Error())
			}
			fmt.Fprintf(&b, "export %s: %s\n", key, value)
		}
	case result.InProgress != nil:
		fmt.Fprintf(&b, "waiting for %s\n", result.InProgress.WaitingFor)
	case result.Failed != nil:
		fmt.Fprintf(&b, "failed: %v\n", result.Failed)
	}
	for _, c := range result.Conditions {
		fmt.Fprintf(&b, "condition %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, m := range result.Messages {
		switch {
		case m.Event == nil:
		case m.Event.Warning:
			fmt.Fprintf(&b, "warning %s: %s\n", m.Event.Reason, m.Event.Message)
		default:
			fmt.Fprintf(&b, "event %s: %s\n", m.Event.Reason, m.Event.Message)
		}
	}
	return b.String()
}

func (s *state) health(args []string) string {
	s.want(args, 0, 0)
	result := s.host.Plugin.CheckHealth(s.host.Context(), s.host.CallOf(s.item))
	switch {
	case result.Succeeded != nil:
		return "healthy\n"
	case result.InProgress != nil:
		return "lacks " + result.InProgress.WaitingFor + "\n"
	default:
		return describe(result)
	}
}

func (s *state) diff(args []string) string {
	s.want(args, 0, 0)
	changes, err := s.host.Plugin.Diff(s.host.Context(), s.host.CallOf(s.item))
	if err != nil {
		return fmt.Sprintf("failed: %v\n", err)
	}
	var lines []string
	for _, c := range changes {
		line := fmt.Sprintf("%s %s", c.Action, c.Object)
		if c.Note != "" {
			line += ": " + c.Note
		}
		if c.Waits != "" {
			line += "; waits: " + c.Waits
		}
		lines = append(lines, line+dataOf("before", c.Before)+dataOf("after", c.After)+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// dataOf returns the data of a ConfigMap or a Secret before or after a change.
func dataOf(when string, object json.RawMessage) string {
	var o struct {
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(object, &o) != nil || len(o.Data) == 0 {
		return ""
	}
	return fmt.Sprintf("\n  %s: %s", when, o.Data)
}

func (s *state) restart(args []string) string {
	s.want(args, 0, 0)
	s.host.Restart()
	return ""
}

func (s *state) configure(args []string) string {
	s.want(args, 1, 1)
	s.host.Configure(s.readFields(args[0]))
	return ""
}

func (s *state) target(args []string) string {
	s.want(args, 1, 1)
	switch args[0] {
	case "none":
		s.host.Call.Target = nil
	case "unreachable":
		s.host.Call.Target = s.host.Target("cluster", &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "very-secret"})
	case "unauthorized":
		access := rest.AnonymousClientConfig(plugintest.Config())
		access.BearerToken = "very-secret"
		s.host.Call.Target = s.host.Target("cluster", access)
	case "cluster":
		s.host.Call.Target = s.host.Target("cluster", plugintest.Config())
	default:
		s.script.Fatalf("there is no target %q", args[0])
	}
	return ""
}

// moveAway has the inventory be of another cluster, and moveBack of the Target's.
func (s *state) moveAway(args []string) string { return s.move(args, s.cluster(), elsewhere) }

func (s *state) moveBack(args []string) string { return s.move(args, elsewhere, s.cluster()) }

// elsewhere is the UID of another cluster.
const elsewhere = "another"

func (s *state) move(args []string, from, to string) string {
	s.want(args, 0, 0)
	moved := bytes.ReplaceAll(s.status(), []byte(from), []byte(to))
	s.item.Status.ProviderStatus = &runtime.RawExtension{Raw: moved}
	return ""
}

func (s *state) cluster() string {
	return string(s.host.MustGet(plugintest.Namespaces, metav1.NamespaceSystem).GetUID())
}

func (s *state) installation(args []string) string {
	s.want(args, 1, 1)
	s.host.Call.Installation = args[0]
	return ""
}

// errCut is the error of requests that are to fail.
var errCut = errors.New("no answer")

func (s *state) fail(args []string) string {
	s.want(args, 0, 2)
	if len(args) == 0 {
		s.host.Requests.Undisturbed()
		return ""
	}
	s.host.Requests.Fail(func(r *http.Request) error {
		if r.Method == args[0] && (strings.HasSuffix(r.URL.Path, "/"+args[1]) || plugintest.NameIn(r) == args[1]) {
			return errCut
		}
		return nil
	})
	return ""
}

func (s *state) requests(args []string) string {
	s.want(args, 0, 0)
	return lines(s.host.Requests.Take())
}

func (s *state) writes(args []string) string {
	s.want(args, 0, 0)
	return lines(s.host.Requests.Writes())
}

// lines returns texts as sorted lines: several requests are made at once.
func lines(texts []string) string {
	slices.Sort(texts)
	if len(texts) == 0 {
		return "none\n"
	}
	return strings.Join(texts, "\n") + "\n"
}

func (s *state) want(args []string, least, most int) {
	if len(args) < least || len(args) > most {
		s.script.Fatalf("expected %d to %d arguments, but found %q", least, most, args)
	}
}

// fieldOf returns a field of an object as JSON.
func fieldOf(o *unstructured.Unstructured, path string) string {
	value, found, err := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
	if err != nil || !found {
		return "none\n"
	}
	content, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(content) + "\n"
}
