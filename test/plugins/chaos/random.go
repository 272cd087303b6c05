package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// random is how calls behave at random: what a call does depends on the seed, the job, the operation and how many calls there
// were for them, and on nothing else.
type random struct {
	Seed uint64 `json:"seed"`
	// Dir is a directory for what outlives the process.
	Dir string `json:"dir"`
	// Calm is a file. Once it exists calls do their work and succeed, and those that block return.
	Calm string `json:"calm"`
}

// providerStatus counts how often it was saved.
type providerStatus struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Saved      int    `json:"saved"`
}

func (r *random) behave(ctx context.Context, operation string, t trace) (*sdk.Response, error) {
	generator, err := r.generator(operation, t.req.JobID)
	if err != nil {
		return nil, err
	}
	if err := r.remember(ctx, t, generator.IntN(3) == 0); err != nil {
		return nil, err
	}
	if exists(r.Calm) {
		return nil, nil //nolint:nilnil // done, without anything to report
	}
	if err := pause(ctx, time.Duration(generator.IntN(30))*time.Millisecond); err != nil {
		return nil, err
	}
	switch dice := generator.IntN(100); {
	case dice < 40:
		return nil, nil //nolint:nilnil // see above
	case dice < 65:
		return sdk.WaitFor(fmt.Sprintf("luck %d", generator.IntN(2)), time.Duration(100+generator.IntN(200))*time.Millisecond), nil
	case dice < 75:
		return nil, errors.New("bad luck, which may turn")
	case dice < 85:
		return nil, &sdk.Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Reason: "BadLuck", Err: errors.New("bad luck for good"),
		}
	case dice < 96:
		return nil, block(ctx, t.req, r.Calm)
	case dice < 98:
		if err := t.record("panic", ""); err != nil {
			return nil, err
		}
		panic("bad luck") //nolint:forbidigo // that is the point
	default:
		if err := t.record("crash", ""); err != nil {
			return nil, err
		}
		os.Exit(7)
		return nil, nil //nolint:nilnil // not reached
	}
}

// generator returns the random numbers of this call, and counts it.
func (r *random) generator(operation, jobID string) (*rand.Rand, error) {
	file := filepath.Join(r.Dir, "calls-"+jobID+"-"+operation)
	calls, err := size(file)
	if err != nil {
		return nil, err
	}
	if err := appendTo(file, "."); err != nil {
		return nil, err
	}
	hash := fnv.New64a()
	if _, err := fmt.Fprintf(hash, "%s %s %d", operation, jobID, calls); err != nil {
		return nil, fmt.Errorf("choose: %w", err)
	}
	return rand.New(rand.NewPCG(r.Seed, hash.Sum64())), nil //nolint:gosec // it has to be repeatable
}

// remember looks whether the provider status is the one that was saved last, and may save the next one.
func (r *random) remember(ctx context.Context, t trace, save bool) error {
	file := filepath.Join(r.Dir, "saved-"+string(t.req.DeployItem.UID))
	saved, err := size(file)
	if err != nil {
		return err
	}
	status := &providerStatus{}
	if _, err := t.req.DecodeProviderStatus(status); err != nil {
		return err
	}
	if status.Saved < saved {
		if err := t.record("lost", strconv.Itoa(saved)+" saved, "+strconv.Itoa(status.Saved)+" found"); err != nil {
			return err
		}
	}
	if !save {
		return nil
	}
	// What was saved without an answer counts, too.
	next := &providerStatus{APIVersion: "test.pergola.dev/v1", Kind: "Saved", Saved: max(saved, status.Saved) + 1}
	if err := t.req.SaveProviderStatus(ctx, next); err != nil {
		return err
	}
	for ; saved < next.Saved; saved++ {
		if err := appendTo(file, "."); err != nil {
			return err
		}
	}
	return nil
}

// size of a file that may not be there yet.
func size(file string) (int, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("count: %w", err)
	}
	return int(info.Size()), nil
}
