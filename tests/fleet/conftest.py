"""Instance options of a service on a group, computed once for all tests that ask for them: demand is no part of them."""

import pytest

from rooflinecli.questions.fleet import answer


@pytest.fixture(scope="session")
def shared_offers():
    priced = answer.offers
    known: dict[str, answer.InstanceOptions] = {}

    def offers(task):
        service, group, bound = task
        key = repr((service.on(group), service.where, service.limits, service.line, service.name, group.devices, bound))
        if key not in known:
            known[key] = priced(task)
        return known[key]

    return offers


@pytest.fixture(autouse=True)
def _offers_once(shared_offers, monkeypatch):
    monkeypatch.setattr(answer, "offers", shared_offers)
