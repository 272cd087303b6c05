package items

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/move"
)

func newMoveCommand(version string) *cobra.Command {
	chosen, r := newSelection(version), move.Request{}
	cmd := &cobra.Command{
		Use:   "move (ITEM... | -l SELECTOR) (--to TARGET | --from TARGET)",
		Short: "Move DeployItems to the cluster of another Target, where there is no Landscaper",
		Long: `Move DeployItems to the cluster of another Target: the host removes all of them from the old cluster, and
deploys them to the new one. Keep the old Target until the end of the move. Only hosts with --standalone move items.

With --to, the item gets this Target, and moves from the one that it has. With --from, it keeps its Target, and moves
from the other one: for an item that has failed with TargetChanged.

The request is spec.target and the annotations ` + move.FromAnnotation + ` and ` + move.OrderAnnotation + `.`,
		Example: `  pergola items move my-item --to new-cluster
  pergola items move my-item --to new-cluster --order deploy-first
  pergola items move my-item --from old-cluster
  pergola items wait my-item`,
	}
	cmd.Args = func(cmd *cobra.Command, names []string) error {
		if _, err := move.ParseOrder(r.Order); err != nil {
			return fmt.Errorf("--order: %w", err)
		}
		if r.To == "" && r.From == "" {
			return errors.New("expected --to or --from")
		}
		return chosen.check(cmd, names)
	}
	cmd.Flags().StringVar(&r.To, "to", "", "new Target of the item (default: the one that it has)")
	cmd.Flags().StringVar(&r.From, "from", "", "Target that leads to the old cluster (default: the one of the item)")
	cmd.Flags().StringVar(&r.Order, "order", string(move.RemoveFirst), "remove-first, or deploy-first for a move "+
		"without a time in between: the item is on both clusters for a while")
	chosen.addItemsTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		w, keys, err := chosen.find(cmd, names, false)
		if err != nil {
			return err
		}
		for _, key := range keys {
			moved, err := requestMove(cmd.Context(), w.Cluster, key.Name, r)
			if err != nil {
				return fmt.Errorf("move DeployItem %q: %w", key, err)
			}
			if err := cli.PrintText(w.stdout, fmt.Sprintf("%s: asked to move from the Target %s to %s, %s\n",
				w.nameOf(key), moved.From, moved.To, moved.Order)); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// requestMove requests the move of an item, and returns it with both names.
func requestMove(
	ctx context.Context, c *usercluster.Cluster, name string, r move.Request,
) (complete move.Request, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		item, err := c.DeployItem(ctx, name)
		if err != nil {
			return err
		}
		before := item.DeepCopy()
		if complete, err = r.Apply(item); err != nil {
			return err
		}
		return c.Patch(ctx, item, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	return complete, err
}
