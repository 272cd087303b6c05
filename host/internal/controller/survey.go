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
	// surveyTimeout is how long the survey waits for a page.
	surveyTimeout = time.Minute
)

// survey lists all items in full when the host starts, so that the idle ones, which are nearly all, are not read one by
// one. It remembers which items are idle, and the types of those whose metadata does not say it. Plugins are served
// when it is over.
type survey struct {
	live     client.Reader
	router   *router
	listener SurveyListener // nil for none
	// standalone: see Options.Standalone.
	standalone bool
	clock      clock.PassiveClock
	log        *slog.Logger
}

// SurveyListener gets the items of the survey, so that it need not list them itself.
type SurveyListener interface {
	// Surveyed gets an item in full, which it must neither keep nor change. It may get an item twice. An error ends the
	// survey.
	Surveyed(ctx context.Context, item *v1alpha1.DeployItem) error
	// SurveyEnded is called at the end of the survey, also of one that has failed. An error ends the Controller.
	SurveyEnded(ctx context.Context) error
}

// run does the survey. If it fails, that is logged, and the items are read one by one; the error is that of
// SurveyEnded. It blocks until all is done or ctx ends, which is no error.
func (s *survey) run(ctx context.Context) error {
	start := s.clock.Now()
	seen, err := s.listAll(ctx)
	if apierrors.IsResourceExpired(err) { // the list was too old for another page
		seen, err = s.listAll(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the error is the shutdown, or caused by it
	case err != nil:
		s.log.Warn("the deploy items could not be listed; they are read one by one",
			"listed", seen, "error", err.Error())
	default:
		s.log.Info("listed all deploy items", "items", seen, "took", s.clock.Since(start).String())
	}
	if s.listener == nil {
		return nil
	}
	return s.listener.SurveyEnded(ctx)
}

// listAll lists all items page by page, and returns how many there were.
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
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	page := &v1alpha1.DeployItemList{}
	return page, s.live.List(ctx, page, client.Limit(surveyPage), client.Continue(token))
}

// note remembers that an item is idle, and its type if its metadata does not say it.
func (s *survey) note(ctx context.Context, item *v1alpha1.DeployItem) error {
	if s.listener != nil {
		if err := s.listener.Surveyed(ctx, item); err != nil {
			return err
		}
	}
	if said, ok := contract.TypeOf(item); !ok || said != item.Spec.Type {
		s.router.setType(item)
	}
	if decide(item, s.standalone, s.clock.Now()).Action == contract.Nothing && contract.UnknownOperation(item) == "" {
		s.router.memory.idleAt(keyOf(item), item.UID, item.ResourceVersion, hookMemory{})
	}
	return nil
}
