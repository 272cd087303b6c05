package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// random is how calls behave at random: what a call does depends on the seed, the job, the operation and how many
// calls there were for the job, and on nothing else.
type random struct {
	Seed uint64 `json:"seed"`
	// Calm is a file. Once it exists calls do their work and succeed, and those that block return.
	Calm string `json:"calm"`
}

// providerStatus counts how often it was saved.
type providerStatus struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Saved      int    `json:"saved"`
}

func (r *random) behave(ctx context.Context, e *evidence) (*sdk.Response, error) {
	begun, err := e.begun()
	if err != nil {
		return nil, err
	}
	hash := fnv.New64a()
	if _, err := fmt.Fprintf(hash, "%s %s %d", e.operation, e.req.JobID, begun); err != nil {
		return nil, fmt.Errorf("choose: %w", err)
	}
	generator := rand.New(rand.NewPCG(r.Seed, hash.Sum64())) //nolint:gosec // it has to be repeatable
	if err := e.remember(ctx, generator.IntN(3) == 0); err != nil {
		return nil, err
	}
	if exists(r.Calm) {
		return nil, nil //nolint:nilnil // done, without anything to report
	}
	if err := pause(ctx, generator.IntN(30)); err != nil {
		return nil, err
	}
	switch dice := generator.IntN(100); {
	case dice < 40:
		return nil, nil //nolint:nilnil // see above
	case dice < 65:
		after := time.Duration(100+generator.IntN(200)) * time.Millisecond
		return sdk.WaitFor(fmt.Sprintf("luck %d", generator.IntN(2)), after), nil
	case dice < 75:
		return nil, errors.New("bad luck, which may turn")
	case dice < 85:
		return nil, &sdk.Error{
			Codes:  []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			Reason: "BadLuck", Err: errors.New("bad luck for good"),
		}
	case dice < 96:
		return nil, block(ctx, e.req, r.Calm)
	case dice < 98:
		panic("bad luck") //nolint:forbidigo // that is the point
	default:
		os.Exit(7)
		return nil, nil //nolint:nilnil // not reached
	}
}

// remember looks whether the provider status is the one that was saved last, and may save the next one.
func (e *evidence) remember(ctx context.Context, save bool) error {
	file := filepath.Join(e.dir, "saved-"+string(e.req.DeployItem.UID))
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read what was saved: %w", err)
	}
	saved, status := len(content), &providerStatus{}
	if _, err := e.req.DecodeProviderStatus(status, "Saved", "test.pergola.dev/v1"); err != nil {
		return err
	}
	if status.Saved < saved {
		if err := e.record("lost", fmt.Sprintf("%d saved, %d found", saved, status.Saved)); err != nil {
			return err
		}
	}
	if !save {
		return nil
	}
	// What was saved without an answer counts, too.
	next := &providerStatus{APIVersion: "test.pergola.dev/v1", Kind: "Saved", Saved: max(saved, status.Saved) + 1}
	if err := e.req.SaveProviderStatus(ctx, next); err != nil {
		return err
	}
	return appendTo(file, strings.Repeat(".", next.Saved-saved))
}
