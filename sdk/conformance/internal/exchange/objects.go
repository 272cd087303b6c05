package exchange

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Objects are those of the deploy item's namespace.
type Objects struct {
	Namespace string
	// Target of the deploy item; may be nil.
	Target *sdk.Target
	// Targets and Secrets by name.
	Targets map[string]*sdk.Target
	Secrets map[string]*sdk.RegistryCredentials
}

// target returns the answer to a question for a Target.
func (o *Objects) target(name string) (document []byte, problem *hostside.Error) {
	target := o.Targets[name]
	if target == nil && o.Target != nil && o.Target.Name == name {
		target = o.Target
	}
	if target == nil {
		return nil, &hostside.Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "ResolveTarget", Reason: "NoTargetFound",
			Message: fmt.Sprintf("Target %q: there is none; create it, or name another one", o.Namespace+"/"+name),
		}
	}
	document, err := json.Marshal(o.Resolved(target))
	if err != nil {
		return nil, &hostside.Error{Operation: "ResolveTarget", Reason: "HostError", Message: err.Error()}
	}
	return document, nil
}

// secret returns the answer to a question for the credentials of a Secret.
func (o *Objects) secret(namespace, name string) *sdk.RegistryCredentials {
	own := o.Namespace
	switch found := o.Secrets[name]; {
	case namespace != "" && namespace != own:
		return &sdk.RegistryCredentials{Secret: name, Problem: fmt.Sprintf(
			"Secret %q: it is of another namespace than the deploy item, which is of %q", namespace+"/"+name, own)}
	case found == nil:
		return &sdk.RegistryCredentials{Secret: name, Problem: fmt.Sprintf(
			"there is no Secret %q; create it, or remove the entry", own+"/"+name)}
	default:
		return found
	}
}

// Resolved returns a Target as the host resolves it.
func (o *Objects) Resolved(target *sdk.Target) *v1alpha1.ResolvedTarget {
	return &v1alpha1.ResolvedTarget{
		Target: &v1alpha1.Target{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Target"},
			ObjectMeta: metav1.ObjectMeta{
				Name: target.Name, Namespace: o.Namespace, Labels: target.Labels, Annotations: target.Annotations,
			},
			Spec: v1alpha1.TargetSpec{Type: target.Type},
		},
		Content: string(target.Content),
	}
}
