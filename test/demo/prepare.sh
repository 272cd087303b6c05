# Takes the cluster of the kubeconfig $CLUSTER, and writes the host's configuration and the examples $ITEMS.

exec >/dev/null
refuse() { echo "$1; use another cluster" >&2; exit 1; }
KUBECONFIG=$CLUSTER kubectl config view --raw --flatten --minify >"$KUBECONFIG"
# The host would deploy the items of others, and beside a Landscaper it would set jobs that are Landscaper's to set.
[ -z "$(kubectl get customresourcedefinition installations.landscaper.gardener.cloud --ignore-not-found -o name)" ] ||
	refuse 'a Landscaper is installed in the cluster, beside which the demo must not set jobs'
# Those that are there stay as they are.
pergola crds | kubectl create -f - 2>/dev/null || true
pergola crds | kubectl wait --for=condition=Established --timeout=30s -f -
[ -z "$(kubectl get deployitems -A -o name)" ] || refuse 'the cluster has DeployItems already, which the demo would deploy'
[ "$ITEMS" != container ] || kubectl apply -f "$DEMO/../../docs/container-rights.yaml"
kubectl config set-context --current --namespace=pergola-demo
sed "s|REGISTRY|$REGISTRY|" "$DEMO/host.yaml" >host.yaml
# The registry of the examples is the one that the demo has started.
mkdir examples
for example in $ITEMS; do
	sed "s|registry.example.org|$REGISTRY|" "$DEMO/../examples/$example.yaml" >"examples/$example.yaml"
done
