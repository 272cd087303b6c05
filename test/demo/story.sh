# Creates a namespace with what the examples refer to, and shows commands with what they print.

create() { kubectl create "$@" >/dev/null; }
create namespace pergola-demo
trap 'kubectl delete namespace pergola-demo --wait=false >/dev/null' EXIT
trap 'exit 1' TERM
create secret generic cluster --from-file=kubeconfig="$KUBECONFIG"
create secret docker-registry registry --docker-server="$REGISTRY" --docker-username="$LOGIN" --docker-password="$PASSWORD"
create -f "$DEMO/objects.yaml"

chapter() { printf '\n== %s\n' "$1"; }
show() { printf '$ %s\n' "$1"; eval "$1"; }
patch() { show "kubectl patch deployitem $1 --type=json -p '[$2]'"; }
outcome() {
	show "pergola items wait mock manifest helm $CONTAINER"
	show 'pergola items list'
	show 'kubectl get configmap settings shop-plain-greeting -o custom-columns=NAME:.metadata.name,DATA:.data'
	show 'kubectl get roses -o custom-columns=NAME:.metadata.name,HEIGHT:.spec.height'
	show "kubectl get secrets -o go-template='{{range .items}}{{with .data.config}}{{base64decode .}}{{\"\\n\"}}{{end}}{{end}}'"
}

chapter 'DeployItems: those of test/examples'
show 'kubectl create -f examples'
outcome

chapter 'A mistake: one of them has failed'
show 'pergola items wait mistake --for finished'
show 'pergola items show mistake'

chapter "An update: the ConfigMap's colour becomes red, the climbing rose is taken out of its item, the shop greets in the evening"
patch manifest '{"op":"replace","path":"/spec/config/manifests/0/manifest/data/colour","value":"red"},
  {"op":"remove","path":"/spec/config/manifests/2"}'
patch helm '{"op":"replace","path":"/spec/config/values/greeting","value":"good evening"}'
[ -z "$CONTAINER" ] || patch container '{"op":"replace","path":"/spec/config/importValues/greeting","value":"good evening"}'
outcome

chapter 'A deletion'
show 'kubectl delete deployitems --all'
show '! kubectl get configmap settings shop-plain-greeting'
