"""What pip's google-cloud-pubsub does with the local cloud; see storage.py."""

import uuid

from clients import client_main, raises, refused
from google.api_core import exceptions, retry
from google.cloud import pubsub_v1

project = "projects/local-project"
suffix = uuid.uuid4().hex[:8]
topic, dead = f"{project}/topics/foreign-{suffix}", f"{project}/topics/dead-{suffix}"
subscription = f"{project}/subscriptions/foreign-{suffix}"
publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
quick = retry.Retry(timeout=5)


def pull(name=subscription, n=10):
    return list(subscriber.pull(subscription=name, max_messages=n, retry=quick, timeout=5).received_messages)


def test_topics_and_subscriptions():
    publisher.create_topic(name=topic)
    publisher.create_topic(name=dead)
    subscriber.create_subscription(name=subscription, topic=topic, ack_deadline_seconds=10)
    assert topic in [t.name for t in publisher.list_topics(project=project)]
    assert subscriber.get_subscription(subscription=subscription).topic == topic
    with raises(exceptions.AlreadyExists):
        publisher.create_topic(name=topic)


def test_publish_pull_acknowledge():
    assert publisher.publish(topic, b"one", trial="7").result(timeout=10)
    got = pull()
    assert [m.message.data for m in got] == [b"one"] and got[0].message.attributes["trial"] == "7"
    subscriber.acknowledge(subscription=subscription, ack_ids=[m.ack_id for m in got])
    assert subscriber.pull(subscription=subscription, max_messages=1, return_immediately=True).received_messages == []


def test_streaming_pull():
    got = []
    future = subscriber.subscribe(subscription, callback=lambda m: (got.append(m.data), m.ack(), future.cancel()))
    publisher.publish(topic, b"streamed").result(timeout=10)
    try:
        future.result(timeout=10)
    except Exception:  # noqa: BLE001 - cancelled by the callback
        pass
    assert got == [b"streamed"], got


def test_a_deadline_that_the_service_refuses():
    for seconds in (5, 601):
        with raises(exceptions.InvalidArgument):
            subscriber.create_subscription(name=f"{subscription}-x", topic=topic, ack_deadline_seconds=seconds)


def test_a_dead_letter_policy_that_the_service_refuses():
    for attempts in (4, 101):
        with raises(exceptions.InvalidArgument):
            subscriber.create_subscription(
                request={
                    "name": f"{subscription}-x",
                    "topic": topic,
                    "dead_letter_policy": {"dead_letter_topic": dead, "max_delivery_attempts": attempts},
                }
            )


def test_dead_letters():
    source, reader = f"{subscription}-source", f"{subscription}-dead"
    subscriber.create_subscription(name=reader, topic=dead)
    made = subscriber.create_subscription(
        request={
            "name": source,
            "topic": topic,
            "dead_letter_policy": {"dead_letter_topic": dead, "max_delivery_attempts": 5},
        }
    )
    assert (
        made.dead_letter_policy == subscriber.get_subscription(subscription=source).dead_letter_policy
        and made.dead_letter_policy.max_delivery_attempts == 5
    )
    publisher.publish(topic, b"poison", trial="7").result(timeout=10)
    for attempt in range(1, 6):
        got = pull(source)
        assert [(m.message.data, m.delivery_attempt) for m in got] == [(b"poison", attempt)], got
        subscriber.modify_ack_deadline(subscription=source, ack_ids=[m.ack_id for m in got], ack_deadline_seconds=0)
    sixth = subscriber.pull(subscription=source, max_messages=1, return_immediately=True)
    assert sixth.received_messages == [], sixth
    [letter] = [m.message for m in pull(reader)]
    assert letter.data == b"poison" and dict(letter.attributes) == {"trial": "7"}, letter


def test_what_is_not_there():
    with raises(exceptions.NotFound):
        publisher.publish(f"{project}/topics/absent", b"x").result(timeout=10)
    with raises(exceptions.NotFound):
        subscriber.get_subscription(subscription=f"{project}/subscriptions/absent")


def test_what_is_not_imitated_is_refused():
    refused(
        lambda: subscriber.create_subscription(
            request={"name": f"{subscription}-x", "topic": topic, "push_config": {"push_endpoint": "https://x.example"}}
        ),
        "pull subscriptions only",
    )
    refused(
        lambda: subscriber.create_snapshot(name=f"{project}/snapshots/s", subscription=subscription),
        "localemu|[Uu]nimplemented|not implemented",
    )
    refused(
        lambda: subscriber.get_iam_policy(request={"resource": subscription}),
        "localemu|[Uu]nimplemented|[Uu]nknown service",
    )


def test_delete():
    subscriber.delete_subscription(subscription=subscription)
    publisher.delete_topic(topic=topic)
    with raises(exceptions.NotFound):
        publisher.get_topic(topic=topic)


if __name__ == "__main__":
    client_main(globals())
