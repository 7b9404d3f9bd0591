launcher=$1
again() {
  for i in 1 2 3 4 5 6 7 8 9 10; do
    "$@" >&2 && return 0
    [ $? = 5 ] && return 5
    sleep 1
  done
  return 1
}
see="sweep sweep.yaml --id chaos"
if [ $# -gt 1 ]; then
  again "$launcher" $see --no-wait --json || exit $?
  sleep "$2"
  again "$launcher" cancel chaos; [ $? = 1 ] && exit 1
  see="watch chaos"
fi
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do # of a cancelled sweep it need not be there at once
  out=$("$launcher" $see --json) ||
    { code=$?; [ $code = 7 ] || exit $code; } # 7: without a winner
  case $out in *'"conclusion":'*) break ;; esac
  sleep 1
done
printf '%s\n' "$out"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40; do
  "$launcher" status chaos --json | grep -q '"finished": *true' && exit ${code-0}
  sleep 1
done
echo 'the tasks do not end' >&2
exit 1
