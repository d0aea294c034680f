"""The page of the service in headless Chromium, against a running `recuse serve`."""

import json
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import recuse
from recuse import RcRRegressor, RiskRejector, datasets
from recuse.tabular.codecs import MISSING_WORDS

webdriver = pytest.importorskip("selenium.webdriver")
pytest.importorskip("uvicorn")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromedriver")

(X, Y), _, (NEW, _) = datasets.split(datasets.load("auto_mpg"), repeat=0)
MAKERS = pd.Series(["ford", "audi"])[X["weight"].gt(2800).astype(int)].set_axis(X.index)
EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
WAIT = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("service")
    cars = X.assign(maker=MAKERS)
    recuse.save(RiskRejector(Ridge(), cost=6.0, cv=3, random_state=0).fit(cars, Y), path / "cars.recuse")
    numbers = X[["weight", "acceleration"]]
    recuse.save(RcRRegressor(cost=9.0, epochs=20, random_state=0).fit(numbers, Y), path / "fixed.recuse")
    fees = numbers.assign(fee=2.0 + X["weight"] / 1000)
    recuse.save(RiskRejector(Ridge(), cost="fee", cv=3, random_state=0).fit(fees, Y), path / "fees.recuse")
    cars.assign(mpg=Y).to_csv(path / "train.csv", index=False)
    return path


@pytest.fixture(scope="module")
def address(folder):
    models = [str(folder / f"{name}.recuse") for name in ("cars", "fixed", "fees")]
    with service(*models, "--training", str(folder / "train.csv")) as address:
        yield address


@contextmanager
def service(*arguments):
    """Run `recuse serve` on a free port, and return its address."""
    command = [sys.executable, "-m", "recuse.cli", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield re.search(r"http://\S+", process.stdout.readline()).group()
    finally:
        process.terminate()
        process.wait(WAIT)
        process.stdout.close()


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(DRIVER))


@pytest.fixture(scope="module")
def driver():
    driver = start_browser()
    yield driver
    driver.quit()


@pytest.fixture
def page(driver, address):
    driver.get(address)
    until(driver, lambda: text(driver, "lead"))
    return driver


def until(driver, condition):
    return WebDriverWait(driver, WAIT, poll_frequency=0.05).until(lambda _: condition())


def text(driver, name):
    return driver.find_element(By.ID, name).text


def ask(address, body, query="?explain=true"):
    data = json.dumps({"record": False, **body}).encode()
    request = urllib.request.Request(f"{address}/predict{query}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WAIT) as answer:
        return json.load(answer)["decisions"]


def fill(driver, column, value):
    field = driver.find_element(By.CSS_SELECTOR, f'[data-column="{column}"]')
    field.send_keys(Keys.CONTROL + "a")
    field.send_keys(Keys.BACKSPACE + value)


def paste(driver, table):
    """Put text into the field and press the button, and wait for the table."""
    driver.execute_script("document.getElementById('table').replaceChildren(); closeBatch()")
    driver.execute_script("document.getElementById('paste').value = arguments[0]", table)
    driver.find_element(By.ID, "decide-paste").click()
    until(driver, lambda: driver.find_elements(By.CSS_SELECTOR, "#table tbody tr"))


def move(driver, position):
    driver.execute_script(
        "const s = document.getElementById('cost-slider'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))",
        position,
    )


def settled(driver, address, name="cars"):
    """Wait until the page shows what the service answers for the row and the cost of the page."""
    row, cost = driver.execute_script("return [state.row.values, state.scale.movable ? state.cost : null]")
    expected = ask(address, {"row": row, **({} if cost is None else {"cost": cost})}, f"?explain=true&model={name}")[0]
    shown = "Predict" if expected["accepted"] else "Ask an expert"
    until(driver, lambda: driver.execute_script("return state.answer") == expected)
    assert text(driver, "big").startswith(shown)
    return expected


def test_the_form_is_filled_with_a_training_row_or_one_inside_the_training_ranges(page, address):
    models = models_of(address)
    assert settled(page, address)["neighbours"][0]["distance"] == 0.0  # the service has training rows
    page.execute_script("useModel({...state.model, training_rows: false})")
    until(page, lambda: text(page, "lead"))
    row = page.execute_script("return state.row.values")
    for column in models[0]["columns"]:
        cell = row[column["name"]]
        assert cell in column["levels"] if column["kind"] == "category" else column["low"] <= cell <= column["high"]
    assert settled(page, address)["new"] == []
    assert text(page, "new").startswith("Every cell is within")
    unnamed = page.execute_script(
        """
        const named = each => each.getAttribute('aria-label') || each.labels?.length || each.textContent.trim();
        const controls = [...document.querySelectorAll('input, button, select, textarea, [role=region]')];
        return controls.filter(each => each.offsetParent && !named(each)).map(each => each.id);
        """
    )
    assert unnamed == []


def test_cells_are_read_as_the_model_reads_their_texts(page, folder):
    random = np.random.default_rng(0)
    texts = [
        *MISSING_WORDS,
        "N/A",
        " NaN ",
        "mars",
        "1e3",
        "-2.5e-3",
        "true",
        "1_000",
        "0x10",
        *MAKERS[:5],
        "2024-05-01",
    ]
    texts += [repr(number) for number in (10 ** random.uniform(-9, 9, 60) * random.choice([-1, 1], 60)).tolist()]
    texts += ["".join(random.choice(list("abc.-:?éß"), 4)) for _ in range(60)]
    columns = {column.name: column for column in recuse.load(folder / "cars.recuse").schema.columns}
    cells = [[text, name] for text in texts for name in columns]
    read = page.execute_script(
        """
        const columns = Object.fromEntries(state.columns.map(column => [column.name, column]));
        return arguments[0].map(([text, name]) => readCell(text, columns[name], state.model.missing_words));
        """,
        cells,
    )
    for (text, name), value in zip(cells, read, strict=True):
        codec = columns[name].codec
        np.testing.assert_equal(codec.of_scalar(value), codec.of_scalar(text), f"{text!r} in {name}")


def test_a_typed_row_gets_the_decision_of_the_service_and_its_reasons(page, address):
    fill(page, "weight", "9000")
    fill(page, "origin", "mars")
    fill(page, "horsepower", "")
    until(page, lambda: "mars" in text(page, "new"))
    answer = settled(page, address)
    assert not answer["accepted"]
    assert f"asking saves about {answer['expected_saving']:.3g}" in text(page, "lead")
    reasons = text(page, "new")
    assert "weight is 9000, outside the training range of 1613 to 5140." in reasons
    assert "origin is \u201cmars\u201d, a category that no training row had." in reasons
    assert "horsepower is empty, which it never was in training." in reasons
    field = page.find_element(By.CSS_SELECTOR, '[data-column="origin"]')
    hints = field.get_attribute("aria-describedby").split()
    assert "new category" in [text(page, name) for name in hints]
    near = page.find_elements(By.CSS_SELECTOR, ".compare tbody tr")
    assert near[0].text.startswith("mpg")
    assert f"{answer['neighbours'][0]['target']:g}" in near[0].text.split()
    assert len(answer["neighbours"]) == 3


def test_the_slider_follows_the_rule_of_the_service_at_once(page, address):
    rows = json.loads(NEW.assign(maker="ford").to_json(orient="records"))
    paste(page, NEW.assign(maker="ford").to_csv(index=False))
    found = page.execute_script(
        """
        return [0, 40, 100, 130, 200].map(position => {
          setCost(state.scale.cost(position));
          return [state.cost, state.batch.decisions.map(each => [each.accepted, each.expected_saving])];
        });
        """
    )
    assert len({cost for cost, _ in found}) == 5
    for cost, shown in found:
        answers = ask(address, {"rows": rows, "cost": cost}, "")
        assert [accepted for accepted, _ in shown] == [each["accepted"] for each in answers]
        assert [saving for _, saving in shown] == pytest.approx([each["expected_saving"] for each in answers])
    assert settled(page, address)["cost"] == found[-1][0]
    slider = page.find_element(By.ID, "cost-slider")
    before = float(page.find_element(By.ID, "cost").get_attribute("value"))
    slider.send_keys(Keys.ARROW_LEFT)
    assert float(page.find_element(By.ID, "cost").get_attribute("value")) < before
    page.find_element(By.ID, "reset").click()
    assert settled(page, address)["cost"] == 6.0


def test_a_typed_cost_is_checked(page, address):
    cost = page.find_element(By.ID, "cost")
    cost.send_keys(Keys.CONTROL + "a")
    cost.send_keys("7,5" + Keys.ENTER)
    assert settled(page, address)["cost"] == 7.5
    cost.send_keys(Keys.CONTROL + "a")
    cost.send_keys("-1" + Keys.ENTER)
    assert text(page, "alert") == "The cost must be a number, 0 or more."
    assert cost.get_attribute("aria-invalid") == "true"


def test_many_rows_have_counts_a_filter_and_their_reasons(page, address):
    rows = NEW.assign(maker="ford", note="a, b")
    rows.loc[rows.index[1:4], "note"] = ["=1+1", "-5", "+49 30"]
    paste(page, rows.to_csv(index=False, sep="\t"))
    answers = page.execute_script("return state.batch.decisions")
    accepted = sum(each["accepted"] for each in answers)
    assert 0 < accepted < len(rows) == len(answers)
    assert f"predicts {accepted} rows and leaves {len(rows) - accepted} to experts" in text(page, "total")
    assert text(page, "table-notes") == "The model does not read note."
    saved = [
        page.execute_script(f"return brief(totals(state.batch.decisions).{than})")
        for than in ("always_ask", "always_predict")
    ]
    assert page.find_element(By.CSS_SELECTOR, ".tile.main dd").text == min(
        saved, key=lambda each: float(each.replace(",", ""))
    )
    page.find_element(By.CSS_SELECTOR, "[data-filter=rejected]").click()
    shown = page.find_elements(By.CSS_SELECTOR, "#table tbody tr")
    assert len(shown) == len(rows) - accepted
    place = int(shown[1].get_attribute("data-row"))
    shown[1].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    until(page, lambda: text(page, "kicker").startswith(f"Row {place + 1}"))
    assert not settled(page, address)["accepted"]
    assert page.execute_script("return state.row.values.weight") == rows["weight"].iloc[place]
    table = page.execute_script(
        """
        let made;
        const create = URL.createObjectURL;
        URL.createObjectURL = blob => { made = blob; return create(blob); };
        download();
        URL.createObjectURL = create;
        return made.text();
        """
    )
    lines = table.splitlines()
    assert lines[0].endswith("maker,note,prediction,accepted,score,cost,expected_loss")
    assert len(lines) == len(rows) + 1
    assert '"a, b"' in lines[1]
    assert [line.split(",")[-6] for line in lines[2:5]] == ["'=1+1", "-5", "'+49 30"]  # which no spreadsheet runs


def test_no_answer_about_another_model_or_row_stays(page):
    page.execute_script("useModel({...state.model, name: 'tissue', columns: []})")  # as that of an image model
    assert text(page, "alert").startswith("This model reads images.")
    assert not page.find_element(By.ID, "board").is_displayed()
    assert not page.find_element(By.ID, "many").is_displayed()
    page.execute_script("useModel(state.models[0])")
    until(page, lambda: text(page, "lead"))
    page.execute_script("state.row.values.weight = {}; decideRow(0)")
    until(page, lambda: "values must be numbers" in text(page, "alert"))
    assert (text(page, "big"), text(page, "lead")) == ("…", "")


def test_a_file_with_semicolons_decimal_commas_and_quotes_is_read(page, tmp_path):
    path = tmp_path / "rows.csv"
    lines = [
        '\ufeffWeight;acceleration;"maker";horsepower',
        '2.800,5;15,5;"ford; ""blue""\nline";n/a',
        "3000;16;audi;90",
    ]
    path.write_text("\r\n".join([*lines, ""]), encoding="utf-8", newline="")
    page.find_element(By.ID, "file").send_keys(str(path))
    until(page, lambda: page.execute_script("return state.batch?.decisions?.length") == 2)
    first, second = page.execute_script("return state.batch.rows")
    assert (first["weight"], first["acceleration"], first["horsepower"]) == (2800.5, 15.5, None)
    assert first["maker"] == 'ford; "blue"\nline'
    assert (second["weight"], second["maker"], second["origin"]) == (3000, "audi", None)
    assert "these cells count as missing" in text(page, "table-notes")


def test_a_dropped_file_is_read(page):
    page.execute_script(
        """
        const data = new DataTransfer();
        data.items.add(new File(['weight,maker\\n2500,audi\\n'], 'one.csv', {type: 'text/csv'}));
        document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
        """
    )
    until(page, lambda: page.execute_script("return state.batch?.decisions?.length") == 1)
    assert page.execute_script("return state.batch.source") == "one.csv"


@pytest.mark.parametrize(
    ("cell", "low", "high", "number"),
    [
        ("1.5", None, None, 1.5),
        ("1,5", None, None, 1.5),
        ("1.234,5", None, None, 1234.5),
        ("1,234", 0, 5, 1.234),
        ("1,234", 1000, 5000, 1234),
        ("1,234,567.5", None, None, 1234567.5),
        ("\u22123", None, None, -3),
        ("2e3", None, None, 2000),
        ("12 kg", None, None, None),
    ],
    ids=["dot", "comma", "german", "decimal", "thousands", "english", "minus", "exponent", "text"],
)
def test_numbers_are_read_as_people_write_them(page, cell, low, high, number):
    assert page.execute_script("return readNumber(...arguments)", cell, low, high) == number


def test_text_that_is_no_table_is_refused_in_one_sentence(page):
    page.execute_script("document.getElementById('paste').value = 'hello world'")
    page.find_element(By.ID, "decide-paste").click()
    assert text(page, "alert").startswith("The first line must have the column names: cylinders, ")


def test_markup_in_cells_stays_text(page, address):
    fill(page, "maker", EVIL)
    until(page, lambda: "window.hacked" in text(page, "new"))
    settled(page, address)
    paste(page, pd.DataFrame({"maker": [EVIL], EVIL: [EVIL], "weight": [3000]}).to_csv(index=False))
    assert EVIL in page.find_element(By.ID, "table").text
    page.find_element(By.CSS_SELECTOR, "#table tbody button").click()
    until(page, lambda: text(page, "kicker").startswith("Row 1"))
    assert page.execute_script("return [window.hacked ?? null, document.querySelectorAll('main img').length]") == [
        None,
        0,
    ]


def test_a_model_of_one_cost_and_a_model_with_a_cost_column(page, address):
    choice = Select(page.find_element(By.ID, "model"))
    choice.select_by_value("fixed")
    until(page, lambda: text(page, "subtitle").startswith("fixed"))
    until(page, lambda: "does not estimate a loss" in text(page, "lead"))
    assert not page.find_element(By.ID, "cost-slider").is_enabled()
    assert "was trained for the cost 9 and decides at no other" in text(page, "cost-note")
    assert "--training FILE" in text(page, "neighbours")
    settled(page, address, "fixed")
    choice.select_by_value("fees")
    until(page, lambda: text(page, "cost-note") == "Each row brings its own cost, in the column fee.")
    until(page, lambda: page.find_elements(By.CSS_SELECTOR, '[data-column="fee"]'))
    fill(page, "fee", "0.001")
    until(page, lambda: page.execute_script("return state.answer?.cost") == 0.001)
    assert not settled(page, address, "fees")["accepted"]


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(page, width):
    paste(page, NEW.assign(maker="x" * 80).to_csv(index=False))
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_page_asks_its_service_only_and_its_policy_allows_no_other_script(page, address):
    page.get_log("browser"), page.get_log("performance")
    page.get(address)
    until(page, lambda: text(page, "lead"))
    move(page, 20)
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    urls = {each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"}
    assert {url for url in urls if not url.startswith((address, "data:"))} == set()
    assert page.get_log("browser") == []
    with urllib.request.urlopen(address, timeout=WAIT) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")
    page.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.injected = 1'; document.body.append(s)"
    )
    assert page.execute_script("return window.injected ?? null") is None


def test_rows_go_to_review_only_when_they_are_sent(driver, folder, tmp_path):
    reviews = pytest.importorskip("recuse.reviews", reason="needs the review queue")
    queue = tmp_path / "reviews.sqlite"
    with service(str(folder / "cars.recuse"), "--queue", str(queue), "--audit-share", "0") as address:
        driver.get(address)
        until(driver, lambda: text(driver, "lead"))
        for position in (20, 150, 0):
            move(driver, position)
        paste(driver, NEW.assign(maker="ford").head(5).to_csv(index=False))
        assert not settled(driver, address)["accepted"]
        assert waiting(reviews, queue) == 0
        driver.find_element(By.ID, "send").click()
        until(driver, lambda: text(driver, "sent") == "Sent to review. Open the queue")
        assert waiting(reviews, queue) == 1
        rejected = driver.execute_script("return state.batch.decisions.filter(each => !each.accepted).length")
        assert rejected > 0
        button = driver.find_element(By.ID, "send-all")
        assert button.text.startswith(f"Send {rejected} row")
        button.click()
        until(driver, lambda: not button.is_displayed())
        assert waiting(reviews, queue) == 1 + rejected


def test_a_replaced_model_keeps_the_rows_of_the_page(driver, folder, tmp_path):
    path, new = tmp_path / "cars.recuse", tmp_path / "new"
    shutil.copyfile(folder / "cars.recuse", path)
    recuse.save(RiskRejector(Ridge(100.0), cost=6.0, cv=3, random_state=0).fit(X.assign(maker=MAKERS), Y), new)
    with service(str(path)) as address:
        driver.get(address)
        until(driver, lambda: text(driver, "lead"))
        paste(driver, NEW.assign(maker="ford").head(5).to_csv(index=False))
        before, row = driver.execute_script("return [state.model.version, state.row.values]")
        new.replace(path)
        until(driver, lambda: models_of(address)[0]["version"] != before)
        driver.execute_script("decideRow(0)")
        until(driver, lambda: before not in text(driver, "subtitle"))
        settled(driver, address)
        assert driver.execute_script("return state.row.values") == row
        rows = driver.execute_script("return state.batch.rows")
        expected = [each["prediction"] for each in ask(address, {"rows": rows, "cost": 6.0}, "")]
        until(
            driver,
            lambda: driver.execute_script("return state.batch.decisions.map(each => each.prediction)") == expected,
        )


def models_of(address):
    with urllib.request.urlopen(f"{address}/models", timeout=WAIT) as answer:
        return json.load(answer)


def waiting(reviews, path):
    """Count the rows of a queue that wait for a person."""
    queue = reviews.ReviewQueue.open(path)
    try:
        return queue.summary()["waiting"]
    finally:
        queue.close()


def test_a_service_with_a_key_is_asked_again_with_it(driver, folder):
    """Serve the same application with a key, on a thread of this process."""
    import uvicorn

    from recuse.serving import Settings, create_app

    app = create_app(Settings({"cars": folder / "cars.recuse"}, api_key="opensesame"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        driver.get(f"http://127.0.0.1:{port}")
        for key, shown in (("wrong", True), ("opensesame", False)):
            field = until(driver, lambda: [each for each in driver.find_elements(By.ID, "key") if each.is_displayed()])
            field[0].send_keys(key + Keys.ENTER)
            if shown:
                until(driver, lambda: driver.find_element(By.ID, "key-alert").is_displayed())
        until(driver, lambda: text(driver, "lead"))
        assert driver.execute_script("return sessionStorage.getItem('recuse-key')") == "opensesame"
    finally:
        server.should_exit = True
        thread.join(WAIT)
