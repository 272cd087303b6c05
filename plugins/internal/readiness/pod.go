package readiness

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func judgePod(o *unstructured.Unstructured) state {
	switch text(o.Object, "status", "phase") {
	case "Succeeded":
		return state{}
	case "Failed":
		said := condition{reason: text(o.Object, "status", "reason"), message: text(o.Object, "status", "message")}
		return failedWith("the Pod has failed%s", because(said, containers(o)))
	case "":
		return waitingFor("no node has seen it yet")
	}
	if _, ok := isTrue(o, "Ready"); ok {
		return state{}
	}
	if c, ok := findCondition(o, "PodScheduled"); ok && c.status != "True" {
		return waitingFor("it is not scheduled%s", because(c, nil))
	}
	said, _ := findCondition(o, "Ready")
	return waitingFor("it is not ready%s", because(said, containers(o)))
}

// because appends the texts of containers and, after them, of a condition.
func because(c condition, containers []string) string {
	reasons := containers
	if c.reason != "" || c.message != "" {
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
		list(o.Object, "status", "initContainerStatuses"), list(o.Object, "status", "containerStatuses"),
	} {
		for _, c := range list {
			said := condition{reason: text(c, "state", "waiting", "reason"), message: text(c, "state", "waiting", "message")}
			code := count(c, "state", "terminated", "exitCode")
			switch {
			case said.reason != "":
				reasons = append(reasons, fmt.Sprintf("container %s: %s", text(c, "name"), said))
			case code != 0:
				reasons = append(reasons, fmt.Sprintf("container %s has ended with exit code %d", text(c, "name"), code))
			}
		}
	}
	return reasons
}
