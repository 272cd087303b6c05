package hostside

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

const (
	// maxObjectName bounds the name of a desired or changed object, made of its name, kind and namespace.
	maxObjectName = 1 << 10
	// maxOutcomes bounds the functions of a plugin for one type of hook.
	maxOutcomes = 100
	// maxRequeueAfter bounds the time until a hook asks for another reconcile. An earlier question does no harm.
	maxRequeueAfter = 365 * 24 * time.Hour
)

// ReadChildren reads desired objects: JSON objects with apiVersion and kind, each with a name of its own.
func ReadChildren(in []*deployerv1.Child) ([]sdk.Child, error) {
	children := make([]sdk.Child, 0, len(in))
	seen := make(map[string]bool, len(in))
	for i, child := range in {
		key := child.GetName()
		switch {
		case key == "" || len(key) > maxObjectName:
			return nil, fmt.Errorf("the name %q of its desired object %d is empty or longer than %d bytes", name(key), i,
				maxObjectName)
		case seen[key]:
			return nil, fmt.Errorf("two of its desired objects have the name %q", name(key))
		}
		seen[key] = true
		if err := checkObject(child.GetObject()); err != nil {
			return nil, fmt.Errorf("its desired object %q %w", name(key), err)
		}
		children = append(children, sdk.Child{Name: key, Object: child.GetObject()})
	}
	return children, nil
}

// checkObject checks that a document is an object of Kubernetes.
func checkObject(document []byte) error {
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(document, &meta); err != nil {
		return fmt.Errorf("is no JSON object: %s", Bounded(err.Error()))
	}
	if !utf8.Valid(document) {
		return errors.New("is not UTF-8")
	}
	if meta.APIVersion == "" || meta.Kind == "" {
		return errors.New("has no apiVersion or no kind")
	}
	return nil
}

// ReadChanges reads the answer to Diff: names of objects, known actions, and states of objects or none.
func ReadChanges(in []*deployerv1.Change) ([]sdk.Change, error) {
	changes := make([]sdk.Change, 0, len(in))
	for i, change := range in {
		object, action := change.GetObject(), sdk.Action(change.GetAction())
		before, beforeErr := readState(change.GetBefore())
		after, afterErr := readState(change.GetAfter())
		switch {
		case object == "" || len(object) > maxObjectName || !utf8.ValidString(object):
			return nil, fmt.Errorf("the object %q of its change %d is empty, longer than %d bytes or not UTF-8",
				name(object), i, maxObjectName)
		case !slices.Contains(sdk.Actions(), action):
			return nil, fmt.Errorf("its change of %q has the action %q; expected one of %q", name(object),
				name(string(action)), sdk.Actions())
		case beforeErr != nil:
			return nil, fmt.Errorf("its change of %q: the state before it: %w", name(object), beforeErr)
		case afterErr != nil:
			return nil, fmt.Errorf("its change of %q: the state after it: %w", name(object), afterErr)
		}
		changes = append(changes, sdk.Change{
			Object: object, Action: action, Before: before, After: after,
			Note: Bounded(change.GetNote()), Waits: Bounded(change.GetWaits()),
		})
	}
	return changes, nil
}

// readState checks the state of an object; nil for none. The error quotes nothing of the user's object.
func readState(in []byte) (json.RawMessage, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if !json.Valid(in) || !utf8.Valid(in) || !bytes.HasPrefix(bytes.TrimLeft(in, " \t\r\n"), []byte("{")) {
		return nil, errors.New("expected a JSON object")
	}
	return in, nil
}

// ReadHoldings reads the answer to Holdings, and counts the holdings that cannot belong to a deploy item. These are
// left out, because one of them must not keep the plugin from removing the others.
func ReadHoldings(in []*deployerv1.Holding) (holdings []sdk.Holding, strange int) {
	for _, h := range in {
		if len(validation.IsDNS1123Label(h.GetNamespace())) > 0 || len(validation.IsDNS1123Subdomain(h.GetName())) > 0 ||
			h.GetUid() == "" || len(h.GetUid()) > MaxText || len(h.GetJobId()) > MaxText {
			strange++
			continue
		}
		holdings = append(holdings, sdk.Holding{
			Namespace: h.GetNamespace(), Name: h.GetName(), UID: types.UID(h.GetUid()), JobID: h.GetJobId(),
		})
	}
	return holdings, strange
}

// HookOutcome is the answer of one hook function. Without a Result and an Error it has no opinion.
type HookOutcome struct {
	// Result with a RequeueAfter from zero to a year.
	Result *hook.Result
	Error  *Error
}

// ReadHookOutcomes reads the answers of hook functions, in the order of their registration.
func ReadHookOutcomes(in []*deployerv1.HookOutcome) ([]HookOutcome, error) {
	if len(in) > maxOutcomes {
		return nil, fmt.Errorf("it returned %d hook outcomes; at most %d are allowed", len(in), maxOutcomes)
	}
	out := make([]HookOutcome, 0, len(in))
	for i, o := range in {
		switch outcome := o.GetOutcome().(type) {
		case *deployerv1.HookOutcome_None:
			out = append(out, HookOutcome{})
		case *deployerv1.HookOutcome_Result:
			r := outcome.Result
			out = append(out, HookOutcome{Result: &hook.Result{
				Requeue:        r.GetRequeue(),
				RequeueAfter:   min(max(r.GetRequeueAfter().AsDuration(), 0), maxRequeueAfter),
				AbortReconcile: r.GetAbortReconcile(),
			}})
		case *deployerv1.HookOutcome_Error:
			read, _ := readError(outcome.Error, sdk.ReasonHookFailed)
			out = append(out, HookOutcome{Error: &read})
		default:
			return nil, fmt.Errorf("outcome %d of its hooks is neither none, result nor error", i)
		}
	}
	return out, nil
}
