package lscontext

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// SecretReader reads Secrets; see Resolver.
type SecretReader interface {
	// Secret returns a Secret; only its Type and Data count, and must not be changed. It may be an older version unless
	// fresh is true. The error wraps that of the API server; a missing Secret was confirmed with a live read.
	Secret(ctx context.Context, name types.NamespacedName, fresh bool) (*corev1.Secret, error)
}

// place is where names of objects are found, and the objects.
type place struct {
	namespace string
	where     string // the Context, in messages; empty if they name no field
}

func placeOf(lsContext *v1alpha1.Context) place {
	return place{
		namespace: lsContext.Namespace, where: fmt.Sprintf("Context %q", lsContext.Namespace+"/"+lsContext.Name),
	}
}

// apiServerError is an error of the API server without a statement about the object.
type apiServerError struct{ error }

// told splits the result for an object into a text for the user and the error of the API server.
func told(err error) (problem string, _ error) {
	if failed := (*apiServerError)(nil); errors.As(err, &failed) {
		return "", failed.error
	}
	if err != nil {
		problem = err.Error()
	}
	return problem, nil
}

// wrong is an error about a field of the Context.
func (p place) wrong(field, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if p.where == "" {
		return err
	}
	return fmt.Errorf("%s: %s: %w", p.where, field, err)
}

// named are the objects of a kind named by fields of a Context.
type named[T any] struct {
	kind, resource string
	advice         string // for an object that does not exist
	read           func(ctx context.Context, name types.NamespacedName, fresh bool) (*T, error)
}

// confirmed has take read an object of the Context's namespace named by a field of the Context. A fault is confirmed
// with a live read, because it may just have been mended.
func (n named[T]) confirmed(ctx context.Context, in place, field, name string, take func(*T) error) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return in.wrong(field+".name", "no %s can have the name %q; correct it", n.kind, cut(name))
	}
	full := types.NamespacedName{Namespace: in.namespace, Name: name}
	var problem error
	for _, fresh := range []bool{false, true} {
		object, err := n.read(ctx, full, fresh)
		switch {
		case apierrors.IsNotFound(err):
			return in.wrong(field+".name", "there is no %s %q; %s", n.kind, full, n.advice)
		case apierrors.IsForbidden(err):
			return in.wrong(field+".name", `the %s %q may not be read; allow "get" for %s in the namespace %q`,
				n.kind, full, n.resource, in.namespace)
		case err != nil:
			return &apiServerError{err}
		}
		if problem = take(object); problem == nil {
			return nil
		}
	}
	return in.wrong(field, "%s %q: %w", n.kind, full, problem)
}

// cut bounds quotes of a Context or a Secret.
func cut(found string) string { return text.Cut(found, maxQuoted) }

// mismatch returns the field of a value of the wrong type, below field, and a sentence about it.
func mismatch(err error, field string) (path, sentence string) {
	path, sentence, ok := text.Mismatch(err, nil)
	if !ok {
		return field, "is no valid JSON"
	}
	return strings.TrimSuffix(field+"."+path, "."), sentence
}

// indexed appends the index of an entry to a field.
func indexed(field string, index int) string { return fmt.Sprintf("%s[%d]", field, index) }
