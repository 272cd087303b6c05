package readiness

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

func judgePod(o *unstructured.Unstructured) state {
	switch object.Text(o.Object, "status", "phase") {
	case "Succeeded":
		return state{}
	case "Failed":
		return failedWith("the Pod has failed%s", because(reasonIn(o.Object, "status"), containers(o)))
	case "":
		return waitingFor("no node has seen it yet")
	}
	if _, ok := object.TrueCondition(o, "Ready"); ok {
		return state{}
	}
	if c, ok := object.ConditionOf(o, "PodScheduled"); ok && c.Status != "True" {
		return waitingFor("it is not scheduled%s", because(c, nil))
	}
	said, _ := object.ConditionOf(o, "Ready")
	return waitingFor("it is not ready%s", because(said, containers(o)))
}

// reasonIn returns the reason and the message in the map at a path.
func reasonIn(in map[string]any, path ...string) object.Condition {
	fields, _ := object.Value(in, path...).(map[string]any)
	return object.Condition{Reason: object.Text(fields, "reason"), Message: object.Text(fields, "message")}
}

// because appends the texts of containers and, after them, of a condition.
func because(c object.Condition, containers []string) string {
	reasons := containers
	if c.Reason != "" || c.Message != "" {
		reasons = append(reasons, c.String())
	}
	if len(reasons) == 0 {
		return ""
	}
	return ", " + strings.Join(reasons, "; ")
}

// containers returns the reasons of waiting and of failed containers of a Pod.
func containers(o *unstructured.Unstructured) []string {
	var reasons []string
	for _, list := range [][]map[string]any{
		object.Maps(o.Object, "status", "initContainerStatuses"), object.Maps(o.Object, "status", "containerStatuses"),
	} {
		for _, c := range list {
			said := reasonIn(c, "state", "waiting")
			code := object.Count(c, "state", "terminated", "exitCode")
			switch {
			case said.Reason != "":
				reasons = append(reasons, fmt.Sprintf("container %s: %s", object.Text(c, "name"), said))
			case code != 0:
				reasons = append(reasons, fmt.Sprintf("container %s has ended with exit code %d", object.Text(c, "name"), code))
			}
		}
	}
	return reasons
}
