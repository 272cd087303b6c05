package hostside

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Part is a part of a result.
type Part int

// The parts of a result.
const (
	PartOutcome Part = iota
	PartConditions
	PartProviderStatus
)

// Flaw is a breach of the rules in an answer. For the host it decides about the answer, for package conformance it is a
// broken rule, so that both find the same.
type Flaw struct {
	Part Part
	Text string
	// Refused: the host does not take the answer. Otherwise it repairs the answer and goes on.
	Refused bool
}

// Refused returns the reasons to refuse the outcome; nil for none. Its provider status is to be saved nevertheless.
func (o *Outcome) Refused() error {
	var errs []error
	for _, flaw := range o.Flaws {
		if flaw.Refused {
			errs = append(errs, errors.New(flaw.Text))
		}
	}
	return errors.Join(errs...)
}

const (
	// maxReason is the limit of Kubernetes for the reason of an event.
	maxReason = 128
	// unexplained is the message of an error without one.
	unexplained = "the deployer failed without saying why"
	// unexplainedProblem is the message of a problem without one.
	unexplainedProblem = "the plugin refuses it without saying why"
)

// reasonPattern is that of Kubernetes for the reasons of conditions.
var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// errorCodes are those of Landscaper.
var errorCodes = []v1alpha1.ErrorCode{
	v1alpha1.ErrorUnauthorized, v1alpha1.ErrorCleanup, v1alpha1.ErrorConfigurationProblem, v1alpha1.ErrorInternalProblem,
	v1alpha1.ErrorTimeout, v1alpha1.ErrorCyclicDependencies, v1alpha1.ErrorWebhook, v1alpha1.ErrorUnfinished,
	v1alpha1.ErrorForInfoOnly, v1alpha1.ErrorNoRetry,
}

// flaws collects the texts of flaws.
type flaws []string

func (f *flaws) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// bounded returns a sentence within its bound.
func (f *flaws) bounded(what, text string) string {
	if len(text) > MaxMessage {
		f.add("%s has %d bytes; expected at most %d", what, len(text), MaxMessage)
	}
	return Bounded(text)
}

// pause returns a pause of at least zero.
func (f *flaws) pause(what string, pause time.Duration) time.Duration {
	if pause < 0 {
		f.add("%s is %s; expected zero or more", what, pause)
	}
	return max(pause, 0)
}

// readFailed reads a failure. There is at least one error, and each has a reason and a message.
func readFailed(in *deployerv1.Failed) (errs []Error, found flaws) {
	if len(in.GetErrors()) == 0 {
		found.add("the call failed without an error")
		return []Error{{Reason: sdk.ReasonError, Message: unexplained}}, found
	}
	if given := len(in.GetErrors()); given > maxErrors {
		found.add("there are %d errors; expected at most %d", given, maxErrors)
	}
	for _, e := range in.GetErrors()[:min(len(in.GetErrors()), maxErrors)] {
		read, flaws := readError(e, sdk.ReasonError)
		errs, found = append(errs, read), append(found, flaws...)
	}
	return errs, found
}

// readError reads an error. Another reason replaces a wrong one. Like an unknown code it is in the message, so that it
// is not lost.
func readError(in *deployerv1.Error, otherReason string) (out Error, found flaws) {
	out = Error{
		Operation: name(in.GetOperation()), Reason: in.GetReason(), Message: in.GetMessage(),
		TargetSilent: in.GetTargetSilent(), Heals: in.GetHeals(),
		RetryAfter: found.pause("the pause after an error", in.GetRetryAfter().AsDuration()),
		Held:       sdk.Claim{DeployItem: name(in.GetHeld().GetDeployItem()), What: name(in.GetHeld().GetWhat())},
	}
	if strings.TrimSpace(out.Message) == "" {
		found.add("the error with the reason %q has no message", name(out.Reason))
		out.Message = unexplained
	}
	out.Message = found.bounded("the message of an error", out.Message)
	if !reasonPattern.MatchString(out.Reason) || len(out.Reason) > maxReason {
		found.add("the error %.100q has the reason %q; expected a word in CamelCase of at most %d characters", out.Message,
			name(out.Reason), maxReason)
		if out.Reason != "" {
			out.Message += fmt.Sprintf(" (its reason %q is not in CamelCase)", name(out.Reason))
		}
		out.Reason = otherReason
	}
	codes := in.GetCodes()
	if len(codes) > maxErrors {
		found.add("an error has %d codes; expected at most %d", len(codes), maxErrors)
		codes = codes[:maxErrors]
	}
	for _, text := range codes {
		if code := v1alpha1.ErrorCode(text); slices.Contains(errorCodes, code) {
			out.Codes = append(out.Codes, code)
			continue
		}
		found.add("the error %.100q has the code %q, which does not exist; expected some of %s", out.Message, name(text),
			errorCodes)
		if len(out.Message) < MaxMessage {
			out.Message += fmt.Sprintf(" (its code %q does not exist)", name(text))
		}
	}
	return out, found
}

// FlawsOfFailed returns the flaws of a failure, each repaired by the host; none for nil.
func FlawsOfFailed(in *deployerv1.Failed) []string {
	if in == nil {
		return nil
	}
	_, found := readFailed(in)
	return found
}

// FlawsOfInfo returns the flaws of the description of a plugin. The host refuses it, but for a missing version and a
// type that is there twice.
func FlawsOfInfo(in *deployerv1.GetInfoResponse) []string {
	var found flaws
	if _, err := ReadInfo(in); err != nil {
		found.add("%v", err)
	}
	if in.GetVersion() == "" {
		found.add("the version is empty")
	}
	for _, names := range [][]string{
		in.GetDeployItemTypes(), in.GetHookedDeployItemTypes(), in.GetCapabilities().GetHookTypes(),
	} {
		if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) < len(names) {
			found.add("a type is named twice: %q", names)
		}
	}
	return found
}

// FlawsOfHooks returns the flaws of the outcomes of hooks. silent: the plugin has promised no opinion. The host repairs
// the others, but for those of ReadHookOutcomes.
func FlawsOfHooks(in []*deployerv1.HookOutcome, silent bool) []string {
	var found flaws
	if _, err := ReadHookOutcomes(in); err != nil {
		found.add("%v", err)
	}
	for i, outcome := range in {
		if silent && outcome.GetResult() != nil {
			found.add("outcome %d is an opinion about an item without a schedule in its provider configuration, see "+
				"sdk.ScheduleInConfig", i)
		}
		found.pause("the time to requeue after", outcome.GetResult().GetRequeueAfter().AsDuration())
		if outcome.GetError() != nil {
			_, flaws := readError(outcome.GetError(), sdk.ReasonHookFailed)
			found = append(found, flaws...)
		}
	}
	return found
}

// ReadProblem reads a problem of a configuration.
func ReadProblem(in *deployerv1.Problem) sdk.Problem {
	message := Bounded(in.GetMessage())
	if strings.TrimSpace(message) == "" {
		message = unexplainedProblem
	}
	return sdk.Problem{Field: name(in.GetField()), Message: message}
}

// FlawsOfProblems returns the flaws of problems of a configuration, each repaired by the host.
func FlawsOfProblems(in []*deployerv1.Problem) []string {
	var found flaws
	for _, problem := range in {
		if strings.TrimSpace(problem.GetMessage()) == "" {
			found.add("the problem of the field %q has no message", name(problem.GetField()))
		}
		found.bounded("the message of a problem", problem.GetMessage())
	}
	return found
}

// CheckProviderStatus checks a provider status: the API server takes only an object with a type.
func CheckProviderStatus(document []byte) error {
	if checkObject(document) != nil {
		return errors.New("provider status: expected a JSON object in UTF-8 with apiVersion and kind")
	}
	return nil
}

// checkExports checks exports; none are right.
func checkExports(document []byte) error {
	var values map[string]json.RawMessage
	if document == nil {
		return nil
	}
	if err := json.Unmarshal(document, &values); err != nil || values == nil || !utf8.Valid(document) {
		return errors.New("exports: expected a JSON object in UTF-8")
	}
	return nil
}

// readConditions reads the conditions of a result. The error refuses them.
func (f *flaws) readConditions(in []*deployerv1.Condition) ([]sdk.Condition, error) {
	conditions := wire.Each(in, func(c *deployerv1.Condition) sdk.Condition {
		return sdk.Condition{
			Type:    v1alpha1.ConditionType(name(c.GetType())),
			Status:  v1alpha1.ConditionStatus(name(c.GetStatus())),
			Reason:  Cut(c.GetReason(), maxConditionReason),
			Message: f.bounded("the message of a condition", c.GetMessage()),
		}
	})
	return conditions, sdk.CheckConditions(conditions)
}
