package conformance

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// diffs answers each Diff with one change.
func diffs(change *deployerv1.Change) func(*service) {
	return func(s *service) {
		s.diffs = func(*deployerv1.Start) (*deployerv1.DiffResponse, error) { return differing(change), nil }
	}
}

var ofDiff = map[string]misbehaviour{
	"DiffFails": {
		reason: "what can be deployed can be compared",
		want:   []Rule{RuleDiffChanges},
		service: func(s *service) {
			s.diffs = func(*deployerv1.Start) (*deployerv1.DiffResponse, error) {
				return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Failed{Failed: failed("not today").GetFailed()}}, nil
			}
		},
	},
	"DiffBreaksOff": {
		reason: "what can be deployed can be compared",
		want:   []Rule{RuleDiffChanges},
		service: func(s *service) {
			s.diffs = func(*deployerv1.Start) (*deployerv1.DiffResponse, error) { return nil, errors.New("not today") }
		},
	},
	"DiffWithoutOutcome": {
		reason: "nothing said is not the same as nothing to do",
		want:   []Rule{RuleDiffChanges},
		service: func(s *service) {
			s.diffs = func(*deployerv1.Start) (*deployerv1.DiffResponse, error) { return &deployerv1.DiffResponse{}, nil }
		},
	},
	"DiffFailsOnceDeployed": {
		reason: "an item that is deployed is the usual one",
		want:   []Rule{RuleDiffChanges},
		service: func(s *service) {
			s.diffs = func(start *deployerv1.Start) (*deployerv1.DiffResponse, error) {
				if len(start.GetProviderStatus()) > 0 {
					return nil, errors.New("it is already there")
				}
				return differing(), nil
			}
		},
	},
	"ChangeOfNothing":     {reason: "people have to see what is changed", want: []Rule{RuleDiffChanges}, service: diffs(&deployerv1.Change{Action: "create"})},
	"ChangeOfLongName":    {reason: "the host takes no novels", want: []Rule{RuleDiffChanges}, service: diffs(&deployerv1.Change{Object: strings.Repeat("x", 1025), Action: "create"})},
	"ChangeWithoutAction": {reason: "people have to see what is done", want: []Rule{RuleDiffChanges}, service: diffs(&deployerv1.Change{Object: "a"})},
	"UnknownAction":       {reason: "the host cannot show it", want: []Rule{RuleDiffChanges}, service: diffs(&deployerv1.Change{Object: "a", Action: "Create"})},
	"StateNoJSON":         {reason: "the host shows the fields", want: []Rule{RuleDiffChanges}, service: diffs(&deployerv1.Change{Object: "a", Action: "update", After: []byte("kind: A")})},
	"StateIsList":         {reason: "a change is that of one object", want: []Rule{RuleDiffChanges}, service: diffs(&deployerv1.Change{Object: "a", Action: "update", Before: []byte("[]")})},
	"StateIsNull":         {reason: "no state is empty", want: []Rule{RuleDiffChanges}, service: diffs(&deployerv1.Change{Object: "a", Action: "create", Before: []byte("null")})},
	"DiffersEachTime": {
		reason: "a change that comes and goes is none",
		want:   []Rule{RuleDiffSame},
		service: func(s *service) {
			var asked atomic.Int32
			s.diffs = func(*deployerv1.Start) (*deployerv1.DiffResponse, error) {
				return differing(&deployerv1.Change{Object: "a", Action: "create", After: fmt.Appendf(nil, `{"n":%d}`, asked.Add(1))}), nil
			}
		},
	},
}

// reports is a deployer whose result has conditions.
func reports(conditions ...*deployerv1.Condition) func(*service) {
	r := success("")
	r.Conditions = conditions
	return says(result(r))
}

// condition is a good one, changed.
func condition(change func(*deployerv1.Condition)) *deployerv1.Condition {
	c := goodCondition()
	change(c)
	return c
}

var ofConditions = map[string]misbehaviour{
	"ConditionWithoutType": {reason: "nobody could find it", want: []Rule{RuleConditions}, service: reports(condition(func(c *deployerv1.Condition) { c.Type = "" }))},
	"ConditionOfSmallType": {reason: "types are in CamelCase", want: []Rule{RuleConditions}, service: reports(condition(func(c *deployerv1.Condition) { c.Type = "raw" }))},
	"ConditionOfTheHost":   {reason: "the host would overwrite it", want: []Rule{RuleConditions}, service: reports(condition(func(c *deployerv1.Condition) { c.Type = "Ready" }))},
	"ConditionTwice":       {reason: "one would overwrite the other", want: []Rule{RuleConditions}, service: reports(goodCondition(), goodCondition())},
	"ConditionStatus":      {reason: "tools know three of them", want: []Rule{RuleConditions}, service: reports(condition(func(c *deployerv1.Condition) { c.Status = "true" }))},
	"ConditionNoReason":    {reason: "Kubernetes requires one", want: []Rule{RuleConditions}, service: reports(condition(func(c *deployerv1.Condition) { c.Reason = "" }))},
	"ConditionLongReason": {
		reason:  "a reason is for machines",
		want:    []Rule{RuleConditions},
		service: reports(condition(func(c *deployerv1.Condition) { c.Reason = strings.Repeat("x", 257) })),
	},
	"TooManyConditions": {
		reason: "a status is no log",
		want:   []Rule{RuleConditions},
		service: func() func(*service) {
			var many []*deployerv1.Condition
			for i := range 9 {
				many = append(many, condition(func(c *deployerv1.Condition) { c.Type = fmt.Sprintf("Raw%d", i) }))
			}
			return reports(many...)
		}(),
	},
}

func asked(sequence uint64, name string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ResolveTarget{
		ResolveTarget: &deployerv1.ResolveTarget{Sequence: sequence, Name: name},
	}}
}

func askedForSecret(sequence uint64, name string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ResolveRegistryCredentials{
		ResolveRegistryCredentials: &deployerv1.ResolveRegistryCredentials{Sequence: sequence, Namespace: "default", Name: name},
	}}
}

// asks is a deployer that asks for a Target before it deploys, if this holds for the call.
func asks(sequence uint64, name string, holds func(*conversation) bool) func(*service) {
	return asksFor(asked(sequence, name), holds)
}

// asksFor is a deployer that asks something before it deploys, if this holds for the call.
func asksFor(question *deployerv1.PluginMessage, holds func(*conversation) bool) func(*service) {
	return func(s *service) {
		s.deploys = func(c *conversation) error {
			if !holds(c) {
				return c.deploy()
			}
			if err := c.send(question); err != nil {
				return err
			}
			select {
			case <-c.heard:
				return c.deploy()
			case <-c.stream.Context().Done():
				return c.stream.Context().Err()
			}
		}
	}
}

var ofQuestions = map[string]misbehaviour{
	"AsksOlderHost": {
		reason:  "it would wait for ever",
		want:    []Rule{RuleResolveTarget},
		service: asks(2, "other", func(c *conversation) bool { return len(c.item.Status.ProviderStatus) > 0 }),
	},
	"AsksForNoName": {
		reason: "there is no such Target",
		want:   []Rule{RuleResolveTarget},
		service: asks(2, "", func(c *conversation) bool {
			return c.start.GetResolvesTargets() && len(c.item.Status.ProviderStatus) > 0
		}),
	},
	"AsksWithTheSequenceOfASave": {
		reason: "an answer could be taken for that of another question",
		want:   []Rule{RuleStatusSequence},
		service: asks(1, "other", func(c *conversation) bool {
			return c.start.GetResolvesTargets() && len(c.item.Status.ProviderStatus) == 0
		}),
	},
	"AsksOlderHostForSecret": {
		reason:  "it would wait for ever",
		want:    []Rule{RuleResolveTarget},
		service: asksFor(askedForSecret(2, "pull"), func(c *conversation) bool { return len(c.item.Status.ProviderStatus) > 0 }),
	},
	"AsksForSecretWithoutName": {
		reason: "there is no such Secret",
		want:   []Rule{RuleResolveTarget},
		service: asksFor(askedForSecret(2, ""), func(c *conversation) bool {
			return c.start.GetResolvesRegistryCredentials() && len(c.item.Status.ProviderStatus) > 0
		}),
	},
	"AsksForSecretThatIsNotThere": {
		reason: "a Secret that is missing is the user's mistake",
		want:   nil,
		service: asksFor(askedForSecret(2, "pull"), func(c *conversation) bool {
			return c.start.GetResolvesRegistryCredentials() && len(c.item.Status.ProviderStatus) > 0
		}),
	},
	"AsksForWhatIsNotThere": {
		reason: "a Target that is missing is the user's mistake",
		want:   nil,
		service: asks(2, "other", func(c *conversation) bool {
			return c.start.GetResolvesTargets() && len(c.item.Status.ProviderStatus) > 0
		}),
	},
}
