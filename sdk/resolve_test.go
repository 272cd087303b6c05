package sdk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func resolvedTarget(sequence uint64, document string) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedTarget{
		ResolvedTarget: &deployerv1.ResolvedTarget{Sequence: sequence, Target: []byte(document)},
	}}
}

func resolvedCredentials(sequence uint64, secret string) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedRegistryCredentials{
		ResolvedRegistryCredentials: &deployerv1.ResolvedRegistryCredentials{
			Sequence: sequence, Credentials: &deployerv1.RegistryCredentials{Secret: secret},
		},
	}}
}

// Questions of all kinds are asked at once, and the host answers in any order: each gets its own answer, and none of the other kind.
func TestAnswersReachTheirQuestions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kinds := rapid.SliceOfN(rapid.SampledFrom([]questionKind{forSave, forTarget, forCredentials}), 1, 20).Draw(rt, "kinds")
		order := rapid.Permutation(indices(len(kinds))).Draw(rt, "order")

		f := newFakeStream(ctx)
		c := openConversation(f, &deployerv1.Start{ResolvesTargets: true, ResolvesRegistryCredentials: true})
		answers := make([]string, len(kinds))
		var asking sync.WaitGroup
		for i, kind := range kinds {
			asking.Go(func() {
				switch kind {
				case forSave:
					answers[i] = fmt.Sprint(c.saveProviderStatus(ctx, fmt.Appendf(nil, "%d", i)))
				case forTarget:
					if target, err := c.resolveTarget(ctx, fmt.Sprint(i)); err == nil {
						answers[i] = string(target.Content)
					}
				case forCredentials:
					if found, err := c.resolveRegistryCredentials(ctx, "ns", fmt.Sprint(i)); err == nil {
						answers[i] = found.Secret
					}
				}
			})
		}
		sequences := make([]uint64, len(kinds)) // by question
		last := uint64(0)
		for range kinds {
			m := <-f.toHost
			asked, sequence := string(m.GetProviderStatus().GetDocument()), m.GetProviderStatus().GetSequence()
			if question := m.GetResolveTarget(); question != nil {
				asked, sequence = question.GetName(), question.GetSequence()
			}
			if question := m.GetResolveRegistryCredentials(); question != nil {
				asked, sequence = question.GetName(), question.GetSequence()
			}
			if sequence <= last {
				rt.Errorf("sequence %d came after %d", sequence, last)
			}
			last = sequence
			var i int
			if _, err := fmt.Sscan(asked, &i); err != nil {
				rt.Fatal(err)
			}
			sequences[i] = sequence
		}
		for _, i := range order {
			all := map[questionKind]*deployerv1.HostMessage{
				forSave:        acknowledgement(sequences[i], fmt.Sprintf("answer %d", i)),
				forTarget:      resolvedTarget(sequences[i], fmt.Sprintf(`{"target":{},"content":"answer %d"}`, i)),
				forCredentials: resolvedCredentials(sequences[i], fmt.Sprintf("answer %d", i)),
			}
			for kind, answer := range all {
				if kind != kinds[i] {
					f.toPlug <- answer
				}
			}
			f.toPlug <- all[kinds[i]]
			f.toPlug <- resolvedTarget(sequences[i], `{"target":{},"content":"a second answer"}`)
			f.toPlug <- resolvedCredentials(sequences[i], "a second answer")
		}
		asking.Wait()
		for i, answer := range answers {
			if !strings.HasSuffix(answer, fmt.Sprintf("answer %d", i)) {
				rt.Errorf("question %d of kind %d got %q", i, kinds[i], answer)
			}
		}
		if err := c.finish(&deployerv1.Result{}); err != nil {
			rt.Fatal(err)
		}
	})
}

// A host that does not know the question would never answer it.
func TestOlderHostIsNotAsked(t *testing.T) {
	t.Parallel()
	f := newFakeStream(t.Context())
	c := openConversation(f, &deployerv1.Start{})
	_, targetErr := c.resolveTarget(t.Context(), "other")
	_, secretErr := c.resolveRegistryCredentials(t.Context(), "ns", "other")
	for _, err := range []error{targetErr, secretErr} {
		var told *Error
		if !errors.As(err, &told) || told.Reason != ReasonHostTooOld || !strings.Contains(err.Error(), "update the host") {
			t.Errorf("expected the reason %s and what to do, but found %v", ReasonHostTooOld, err)
		}
		if diff := cmp.Diff([]v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Codes(err)); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
	}
	if err := c.finish(&deployerv1.Result{}); err != nil {
		t.Fatal(err)
	}
	if m := <-f.toHost; m.GetResult() == nil {
		t.Errorf("the host was asked: %v", m)
	}
}

func TestResolvedTargetIsRead(t *testing.T) {
	t.Parallel()
	const secret = "0123456789"
	tests := map[string]struct {
		reason string
		answer *deployerv1.ResolvedTarget
		want   *Target
		// wantErr is what the error says; the zero one for none.
		wantErr Error
		// wantText is part of its message.
		wantText string
	}{
		"Target": {
			reason: "it is as that of the item",
			answer: &deployerv1.ResolvedTarget{Target: []byte(`{"target":{"metadata":{"name":"other","labels":{"a":"b"}},"spec":{"type":"t"}},"content":"` + secret + `"}`)},
			want:   &Target{Name: "other", Type: "t", Labels: map[string]string{"a": "b"}, Content: []byte(secret)},
		},
		"Error": {
			reason: "the host has said everything",
			answer: &deployerv1.ResolvedTarget{Error: &deployerv1.Error{
				Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "ResolveOther", Reason: "NoTargetFound", Message: `Target "ns/other": there is none`,
			}},
			wantErr:  Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "ResolveOther", Reason: "NoTargetFound"},
			wantText: `Target "ns/other": there is none`,
		},
		"ErrorAndTarget": {
			reason:   "a Target that cannot be used is not used",
			answer:   &deployerv1.ResolvedTarget{Target: []byte(`{"target":{},"content":"` + secret + `"}`), Error: &deployerv1.Error{Message: "forbidden"}},
			wantErr:  Error{Operation: "ResolveTarget"},
			wantText: "forbidden",
		},
		"EmptyError": {
			reason:   "an error without a text would help nobody",
			answer:   &deployerv1.ResolvedTarget{Error: &deployerv1.Error{}},
			wantErr:  Error{Operation: "ResolveTarget"},
			wantText: `"other"`,
		},
		"Nothing": {
			reason:   "a deployer relies on a Target where there is no error",
			answer:   &deployerv1.ResolvedTarget{},
			wantErr:  Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}},
			wantText: `"other"`,
		},
		"NoJSON": {
			reason:   "what cannot be read may be a credential",
			answer:   &deployerv1.ResolvedTarget{Target: []byte(secret)},
			wantErr:  Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}},
			wantText: `"other"`,
		},
		"WrongType": {
			reason:   "a decoder would name the value",
			answer:   &deployerv1.ResolvedTarget{Target: []byte(`{"target":{"metadata":{"creationTimestamp":"` + secret + `"}}}`)},
			wantErr:  Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}},
			wantText: `"other"`,
		},
		"NoTarget": {
			reason:   "content alone is no Target",
			answer:   &deployerv1.ResolvedTarget{Target: []byte(`{"content":"` + secret + `"}`)},
			wantErr:  Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}},
			wantText: `"other"`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := resolvedFromWire("other", tc.answer)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: Target (-want +got):\n%s", tc.reason, diff)
			}
			if tc.wantText == "" {
				if err != nil {
					t.Errorf("%s: %v", tc.reason, err)
				}
				return
			}
			var told *Error
			if !errors.As(err, &told) {
				t.Fatalf("%s: expected an *Error, but found %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.wantErr, Error{Codes: told.Codes, Operation: told.Operation, Reason: told.Reason}); diff != "" {
				t.Errorf("%s: error (-want +got):\n%s", tc.reason, diff)
			}
			if !strings.Contains(err.Error(), tc.wantText) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: expected a message with %s and without the content, but found: %v", tc.reason, tc.wantText, err)
			}
		})
	}
}

func TestResolvedCredentialsAreRead(t *testing.T) {
	t.Parallel()
	const secret = "0123456789"
	for name, tc := range map[string]struct {
		reason string
		answer *deployerv1.ResolvedRegistryCredentials
		want   *RegistryCredentials
		// wantErr is what the error says; the zero one for none.
		wantErr Error
		// wantText is part of its message.
		wantText string
	}{
		"Credentials": {
			reason: "they are as those of the Context",
			answer: &deployerv1.ResolvedRegistryCredentials{Credentials: &deployerv1.RegistryCredentials{Secret: "pull", DockerConfig: []byte(secret)}},
			want:   &RegistryCredentials{Secret: "pull", DockerConfig: []byte(secret)},
		},
		"Problem": {
			reason: "the deployer judges it",
			answer: &deployerv1.ResolvedRegistryCredentials{Credentials: &deployerv1.RegistryCredentials{Secret: "pull", Error: "there is none"}},
			want:   &RegistryCredentials{Secret: "pull", Problem: "there is none"},
		},
		"Error": {
			reason:   "the host has said everything",
			answer:   &deployerv1.ResolvedRegistryCredentials{Error: &deployerv1.Error{Operation: "Read", Reason: "HostError", Message: "connection refused"}},
			wantErr:  Error{Operation: "Read", Reason: "HostError"},
			wantText: "connection refused",
		},
		"EmptyError": {
			reason:   "an error without a text would help nobody",
			answer:   &deployerv1.ResolvedRegistryCredentials{Error: &deployerv1.Error{}},
			wantErr:  Error{Operation: "ResolveRegistryCredentials"},
			wantText: `"pull"`,
		},
		"Nothing": {
			reason:   "a deployer relies on credentials where there is no error",
			answer:   &deployerv1.ResolvedRegistryCredentials{},
			wantErr:  Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}},
			wantText: `"pull"`,
		},
	} {
		got, err := resolvedCredentialsFromWire("pull", tc.answer)
		if fmt.Sprint(got) != fmt.Sprint(tc.want) || got != nil && string(got.DockerConfig) != string(tc.want.DockerConfig) {
			t.Errorf("%s: %s: expected %v, but found %v", name, tc.reason, tc.want, got)
		}
		if tc.wantText == "" {
			if err != nil {
				t.Errorf("%s: %s: %v", name, tc.reason, err)
			}
			continue
		}
		var told *Error
		if !errors.As(err, &told) || !strings.Contains(err.Error(), tc.wantText) {
			t.Errorf("%s: %s: expected an *Error with %s, but found %v", name, tc.reason, tc.wantText, err)
			continue
		}
		if diff := cmp.Diff(tc.wantErr, Error{Codes: told.Codes, Operation: told.Operation, Reason: told.Reason}); diff != "" {
			t.Errorf("%s: %s: error (-want +got):\n%s", name, tc.reason, diff)
		}
	}
}
