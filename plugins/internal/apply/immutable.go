package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// The API server has no error of its own for an immutable field, and each kind explains it in other words. A refused
// change counts as one of an immutable field, possible in a new object, under all of these conditions:
//
//   - All causes are of the types of a comparison with the object as it is. A duplicate, a missing or an unknown value
//     is wrong by itself, or became so by merging.
//   - No cause has to do with the status: a refusal because of the state of an object protects what it stands for.
//   - All causes are about fields changed by the manifest.
//   - The manifest would be accepted as a new object, and the result of its merge with the object would not be refused
//     as a new one.

// isImmutable reports whether the API server would accept the object of a refused change as a new one. unknown is the
// reason if it does not show this.
func isImmutable(
	ctx context.Context, w writer, i *desired.Object, live *unstructured.Unstructured, refused error,
) (immutable bool, unknown error) {
	if !desired.MayBeImmutable(i, live, causes(refused)) {
		return false, nil
	}
	err := wouldCreate(ctx, w, i, i.Desired)
	switch {
	case apierrors.IsForbidden(err) && !desired.IsFreedQuota(err, live):
		return false, err
	case !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err):
		return false, nil
	}
	merged := desired.MergedWith(i, live)
	if merged == nil {
		return true, nil
	}
	again := causes(wouldCreate(ctx, w, i, merged))
	return !slices.ContainsFunc(again, func(c metav1.StatusCause) bool {
		return slices.ContainsFunc(causes(refused), func(r metav1.StatusCause) bool { return r.Field == c.Field })
	}), nil
}

// wouldCreate tries the creation of an existing object in a dry run: the API server reports its existence only if the
// new one is valid and admission allows it.
func wouldCreate(ctx context.Context, w writer, i *desired.Object, o *unstructured.Unstructured) error {
	probe := *i
	probe.Desired = desired.WithoutAllocations(o)
	_, err := w.dry().createOnly(ctx, &probe)
	return err
}

// immutableField quotes the API server's error with the fields, and adds a remedy. lost names the losses with the
// object, and held is the reason against its deletion.
func immutableField(i *desired.Object, lost, held string, err error) error {
	remedy := "change the manifest back, or give the object another name"
	at := ""
	if i.Settings != nil {
		at = " at " + i.Settings.String()
	}
	switch {
	case i.Recreate && !objects.RuleOf(i.Policy).Deleted:
		remedy += "; recreate has no effect with the policy " + string(i.Policy)
	case held != "":
		remedy += "; it is not deleted to be created anew, since " + held
	case i.Recreate:
		remedy = fmt.Sprintf("recreate%s does not apply, since with it go %s; "+
			"to have that, give the object an entry of its own with recreate: true", at, lost)
	case at != "" && lost != "":
		remedy = fmt.Sprintf("with recreate: true%s it is deleted and created anew, and with it go %s", at, lost)
	case at != "":
		remedy = fmt.Sprintf("set recreate: true%s, and it is deleted and created anew; or %s", at, remedy)
	}
	return configurationError(ReasonImmutableField,
		fmt.Errorf("an immutable field would change: %w; %s", err, remedy))
}

// undecided returns the error about a refused change if it is unknown whether a new object could have it.
func undecided(refused, unknown error) error {
	return target.Rejected(errors.Join(refused,
		fmt.Errorf("whether a new object could have the change is not known: %w", unknown)))
}
