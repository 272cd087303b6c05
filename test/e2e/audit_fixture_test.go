package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// write is an entry of the audit log about a request, with its body and that of the answer if the log has them.
type write struct {
	request
	RequestReceivedTimestamp      metav1.MicroTime
	RequestObject, ResponseObject json.RawMessage
}

func (w *write) succeeded() bool { return w.ResponseStatus.Code >= 200 && w.ResponseStatus.Code < 300 }

// toStatus tells whether the request is for the status, and not for the item itself.
func (w *write) toStatus() bool { return w.ObjectRef.Subresource == "status" }

// call is a record of the plugin counter: the beginning of a call, or its end.
type call struct {
	Time                                  time.Time
	Event, Outcome, Operation, JobID, UID string
	Name                                  string
	PID                                   int
}

// readTrace reads what the plugin has recorded, which may be nothing.
func readTrace(t *testing.T, file string) []call {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var calls []call
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		c := call{}
		if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
			t.Fatalf("decode trace: %v", err)
		}
		calls = append(calls, c)
	}
	return calls
}

func queued(item *v1alpha1.DeployItem) bool {
	return slices.ContainsFunc(item.Status.Conditions, func(c v1alpha1.Condition) bool {
		return c.Type == "Reconciling" && c.Reason == "Queued"
	})
}

// pickedUpJob is the job that the item says was picked up last.
func pickedUpJob(item *v1alpha1.DeployItem) string { return conditionOf(item, "PickedUp").Message }

// state is an item's state as far as the deployer contract goes.
func state(item *v1alpha1.DeployItem) string {
	return fmt.Sprintf("version %s, %s, picked up %q", item.ResourceVersion, describe(item), pickedUpJob(item))
}
