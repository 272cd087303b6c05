package controller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// surveyPage is how many items the survey holds at a time.
	surveyPage = 500
	// surveyPatience is how long the survey waits for a page: the items that were there wait for its end.
	surveyPatience = time.Minute
)

// survey lists all items in full when the host starts, so that those that have nothing to do, in a while nearly all
// of them, are not read one by one. It keeps no item, only which ones are idle, and what type those are whose
// metadata does not tell it. Plugins are served when it is over.
type survey struct {
	live    client.Reader
	router  *router
	witness SurveyWitness // nil for none
	// standalone: see Options.Standalone.
	standalone bool
	clock      clock.PassiveClock
	log        *slog.Logger
}

// SurveyWitness hears of the survey, so that it need not list the items itself.
type SurveyWitness interface {
	// Surveyed hears of an item in full, which is not to be kept or changed. Of some items it may hear twice. An
	// error ends the survey.
	Surveyed(ctx context.Context, item *v1alpha1.DeployItem) error
	// SurveyEnded hears that there is nothing more to come, be it that the survey has failed. An error ends the
	// Controller.
	SurveyEnded(ctx context.Context) error
}

// run takes the survey. One that fails is logged, and the items are read one by one; the error is that of the witness.
// It blocks until all is done or ctx ends, which is no error.
func (s *survey) run(ctx context.Context) error {
	start := s.clock.Now()
	seen, err := s.listAll(ctx)
	if apierrors.IsResourceExpired(err) { // the API server could not keep the list for so long
		seen, err = s.listAll(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the error is the shutdown, or comes of it
	case err != nil:
		s.log.Warn("the deploy items could not be listed; they are read one by one",
			"listed", seen, "error", err.Error())
	default:
		s.log.Info("listed all deploy items", "items", seen, "took", s.clock.Since(start).String())
	}
	if s.witness == nil {
		return nil
	}
	return s.witness.SurveyEnded(ctx)
}

// listAll goes through all items page by page, and returns how many it has seen.
func (s *survey) listAll(ctx context.Context) (seen int, err error) {
	for token := ""; ; {
		page, err := s.list(ctx, token)
		if err != nil {
			return seen, fmt.Errorf("list deploy items: %w", err)
		}
		for i := range page.Items {
			if err := s.note(ctx, &page.Items[i]); err != nil {
				return seen, err
			}
		}
		seen += len(page.Items)
		if token = page.Continue; token == "" {
			return seen, nil
		}
	}
}

func (s *survey) list(ctx context.Context, token string) (*v1alpha1.DeployItemList, error) {
	ctx, cancel := context.WithTimeout(ctx, surveyPatience)
	defer cancel()
	page := &v1alpha1.DeployItemList{}
	return page, s.live.List(ctx, page, client.Limit(surveyPage), client.Continue(token))
}

// note remembers what spares an item from being read by itself.
func (s *survey) note(ctx context.Context, item *v1alpha1.DeployItem) error {
	if s.witness != nil {
		if err := s.witness.Surveyed(ctx, item); err != nil {
			return err
		}
	}
	if said, ok := contract.TypeOf(item); !ok || said != item.Spec.Type {
		s.router.setType(item)
	}
	if decide(item, s.standalone, s.clock.Now()).Action == contract.Nothing && contract.UnknownOperation(item) == "" {
		s.router.memory.surveyed(item)
	}
	return nil
}
